//! A row of numbers that is filled in order.

pub(super) struct Numbers<const N: usize> {
    numbers: [f32; N],
    n: usize,
}

impl<const N: usize> Numbers<N> {
    pub(super) fn new() -> Self {
        Numbers { numbers: [0.0; N], n: 0 }
    }

    pub(super) fn push(&mut self, number: f64) {
        self.numbers[self.n] = number as f32;
        self.n += 1;
    }

    pub(super) fn flag(&mut self, is: bool) {
        self.push(f64::from(u8::from(is)));
    }

    pub(super) fn log1p(&mut self, n: u32) {
        self.push(libm::log1p(f64::from(n)));
    }

    /// The row, which must be full.
    pub(super) fn row(self) -> [f32; N] {
        assert_eq!(self.n, N, "a number of the row is missing");
        self.numbers
    }
}
