//! Factors of constants, which a program that measures sets, and which of them were read: part of the variant of the core alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const COUNT: usize = include!("tuned_count.in");
static FACTORS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
static READ: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

pub(crate) trait Tuned: Copy {
    fn times(self, factor: f64) -> Self;
}
macro_rules! numbers { ($($t:ty),*) => { $(impl Tuned for $t { fn times(self, factor: f64) -> Self { (self as f64 * factor) as $t } })* } }
numbers!(f64, f32, usize, u8, u16, u32, u64, i8, i16, i32, i64);
impl<T: Tuned, const N: usize> Tuned for [T; N] {
    fn times(self, factor: f64) -> Self {
        self.map(|each| each.times(factor))
    }
}
impl<A: Tuned, B: Tuned> Tuned for (A, B) {
    fn times(self, factor: f64) -> Self {
        (self.0.times(factor), self.1.times(factor))
    }
}
impl<A: Tuned, B: Tuned, C: Tuned> Tuned for (A, B, C) {
    fn times(self, factor: f64) -> Self {
        (self.0.times(factor), self.1.times(factor), self.2.times(factor))
    }
}

/// A constant's value times its factor.
#[inline]
pub(crate) fn at<T: Tuned>(number: usize, value: T) -> T {
    if !READ[number].load(Relaxed) {
        READ[number].store(true, Relaxed);
    }
    match FACTORS[number].load(Relaxed) {
        0 => value,
        bits => value.times(f64::from_bits(bits)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn hockeystick_set_factor(number: usize, factor: f64) {
    FACTORS[number].store(factor.to_bits(), Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn hockeystick_was_read(number: usize) -> bool {
    READ[number].swap(false, Relaxed)
}
