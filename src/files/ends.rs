//! What is done before a signal ends the program.

/// Does this before an interrupt, a hang-up or a request to end takes its course. Where signals cannot be caught it is never done.
pub fn before_a_signal(does: impl Fn() + Send + 'static) {
    #[cfg(unix)]
    unix::before_a_signal(Box::new(does));
    #[cfg(not(unix))]
    drop(does);
}

#[cfg(unix)]
mod unix {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, Once, PoisonError};
    use std::thread;
    use std::time::Duration;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    type Does = Box<dyn Fn() + Send>;

    static ALL: Mutex<Vec<Does>> = Mutex::new(Vec::new());

    pub(super) fn before_a_signal(does: Does) {
        static ONCE: Once = Once::new();
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(does);
        ONCE.call_once(|| {
            let caught = Arc::new(AtomicUsize::new(0));
            let register =
                |signal: i32| signal_hook::flag::register_usize(signal, Arc::clone(&caught), signal as usize);
            if [SIGHUP, SIGINT, SIGTERM].into_iter().map(register).any(|registered| registered.is_err()) {
                return;
            }
            thread::spawn(move || {
                while caught.load(Ordering::Relaxed) == 0 {
                    thread::sleep(Duration::from_millis(100));
                }
                ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|does| does());
                let signal = caught.load(Ordering::Relaxed) as i32;
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        });
    }
}
