//! Panics as errors.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

// A hook alone is told where a panic is, and it runs on the thread that panics.
thread_local! {
    /// Where the panic was that is about to be caught on this thread; none when none would be.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls, and makes a panic an error that says where it was. Prints no backtrace: a night's run may
/// have thousands of bad cells, and each has a row with its error.
pub(super) fn caught<T>(call: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Paths of dependencies name the machine that built them, and rows must not.
            let place = info.location().filter(|l| Path::new(l.file()).is_relative());
            let place = place.map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
            let here = CAUGHT.with_borrow_mut(|caught| caught.as_mut().map(|c| *c = place).is_some());
            if !here {
                before(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(call));
    let place = CAUGHT.take().unwrap_or_default();
    result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(anyhow::anyhow!("panic{place}: {text}"))
    })
}
