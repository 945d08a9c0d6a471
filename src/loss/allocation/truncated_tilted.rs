//! Tilted losses of an epoch without outputs in which some batch has a large likelihood ratio, where the record is removed.
//!
//! Moments of a high order exist only by outputs that are absurdly rare, and are useless; without these outputs they are those of what
//! really happens. High orders are computed by [`VerticalLine`], low ones as those of the whole law, from which they differ by no
//! more than the moment of what is left out.

use crate::approx::Approx;
use crate::loss::allocation::truncated_decay::log_decay;
use crate::loss::allocation::truncated_law::TruncatedLaw;
use crate::loss::allocation::vertical_line::VerticalLine;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::special::log_space::log_add;
use realfft::num_complex::Complex64;

/// Least exponent w of a line: below, its points fall off slowly.
const LEAST_EXPONENT: f64 = 2.5;
/// Largest part of a moment that what is left out may be, in logarithms, where its transform is computed with it.
const MOST_LEFT_OUT: f64 = -25.0;

impl TruncatedLaw {
    /// The line for exponents from w on.
    pub(crate) fn line(&self, w: f64) -> Option<VerticalLine> {
        if w < LEAST_EXPONENT {
            return None;
        }
        VerticalLine::new(self, w, 0.0)
    }

    /// log of a bound on the part of M(w) that is left out.
    fn log_part_left_out(&self, w: f64, moments: &TiltedMoments) -> f64 {
        self.log_moment_left_out(w) - moments.log_moment.lower()
    }

    /// The moments at w of what is kept, from those of the whole law.
    pub(crate) fn without_rest(&self, w: f64, whole: TiltedMoments) -> TiltedMoments {
        let left_out = self.log_part_left_out(w, &whole);
        let mut moments = whole;
        moments.log_moment.error += if left_out < -1.0 {
            -(-left_out.exp()).ln_1p()
        } else {
            f64::INFINITY
        };
        moments
    }
}

impl VerticalLine {
    /// The moments of the loss.
    pub(crate) fn moments(&self) -> TiltedMoments {
        TiltedMoments {
            log_moment: self.log,
            mean: self.mean,
            variance: self.variance,
        }
    }
}

/// The loss tilted by e^{cℓ}, from a line.
pub(crate) struct TiltedByLine<'a> {
    pub(crate) law: &'a TruncatedLaw,
    pub(crate) line: VerticalLine,
}

impl TiltedLoss for TiltedByLine<'_> {
    fn moments(&self) -> TiltedMoments {
        self.line.moments()
    }

    fn size(&self) -> usize {
        self.line.size()
    }

    fn certify(&mut self, reach: f64) {
        if let Some(line) = VerticalLine::new(self.law, self.line.w, reach) {
            self.line = line;
        }
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        log_decay(self.law, &self.line, y)
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let at = |i: usize| match i {
            0 => Approx::exact(Complex64::default()),
            _ => self.line.change(i as f64 * spacing),
        };
        (0..=last).map(at).collect()
    }
}

/// The loss tilted by e^{cℓ}, from that of the whole law.
pub(crate) struct TiltedWhole<'a> {
    inner: Box<dyn TiltedLoss + 'a>,
    moments: TiltedMoments,
    /// log of a bound on the part of the moment that is left out.
    left_out: f64,
}

impl<'a> TiltedWhole<'a> {
    /// At the exponent w, where `inner` is the loss of the whole law and `whole` its moments.
    pub(crate) fn new(law: &TruncatedLaw, w: f64, inner: Box<dyn TiltedLoss + 'a>, whole: TiltedMoments) -> Self {
        let left_out = law.log_part_left_out(w, &whole);
        Self {
            inner,
            moments: law.without_rest(w, whole),
            left_out: if left_out < MOST_LEFT_OUT { left_out } else { 0.0 },
        }
    }
}

impl TiltedLoss for TiltedWhole<'_> {
    fn moments(&self) -> TiltedMoments {
        self.moments
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn certify(&mut self, reach: f64) {
        self.inner.certify(reach);
    }

    fn quadrature_error(&self) -> f64 {
        self.inner.quadrature_error() + self.left_out.exp()
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        log_add(self.inner.log_decay(y), self.left_out).min(0.0) + 2.0 * self.left_out.exp()
    }

    /// With M the moment of the whole law and what is kept 1 − ω of it, φ changes by at most ω/(1 − ω) twice.
    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut found = self.inner.changes(spacing, last);
        for change in found.iter_mut().skip(1) {
            change.error += 2.1 * self.left_out.exp();
        }
        found
    }
}
