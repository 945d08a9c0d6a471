//! A tilted loss of which moments alone are known.

use crate::approx::Approx;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use realfft::num_complex::Complex64;

/// A loss of which only moments are known: of dealt batches, its law is on a fine lattice, whose characteristic function comes back to 1.
pub(super) struct Unknown(pub(super) TiltedMoments);

impl TiltedLoss for Unknown {
    fn moments(&self) -> TiltedMoments {
        self.0
    }

    fn size(&self) -> usize {
        1
    }

    fn quadrature_error(&self) -> f64 {
        2.0
    }

    fn log_decay(&mut self, _: f64) -> f64 {
        0.0
    }

    fn changes(&self, _: f64, last: usize) -> Vec<Approx<Complex64>> {
        vec![Approx::new(Complex64::default(), 2.0); last + 1]
    }
}
