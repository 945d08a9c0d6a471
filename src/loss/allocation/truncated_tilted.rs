//! Tilted losses of an epoch without outputs in which some batch has a large likelihood ratio, where the record is removed.
//!
//! Moments of a high order exist only by outputs that are absurdly rare, and are useless; without these outputs they are those of what
//! really happens. High orders are computed by [`VerticalLine`], low ones as those of the whole law, from which they differ by no
//! more than the moment of what is left out.

use crate::approx::Approx;
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::truncated_decay::log_decay;
use crate::loss::allocation::truncated_law::TruncatedLaw;
use crate::loss::allocation::vertical_line::{VerticalLine, estimate};
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

    /// Estimates of the moments at w, without a bound on their error.
    pub(crate) fn estimated_moments(&self, w: f64) -> Option<TiltedMoments> {
        let Some(large) = &self.large else {
            return (w >= LEAST_EXPONENT).then(|| estimate(self, w)).flatten();
        };
        let rest = self.of_parts(0.0)?;
        let mut found = large.estimated_moments(w, (rest.first, rest.second));
        found.log_moment.value += rest.log;
        Some(found)
    }

    /// log of a bound on the part of M(w) that is left out.
    pub(crate) fn log_part_left_out(&self, w: f64, moments: &TiltedMoments) -> f64 {
        self.log_moment_left_out(w, moments.log_moment.upper()) - moments.log_moment.lower()
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
    /// The decay where some batches are not released.
    pub(crate) partial: Option<Decay>,
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
        log_decay(self.law, &self.line, self.partial.as_ref(), y)
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

impl TiltedWhole<'_> {
    /// A bound on the change of φ by what is left out: with M the moment of the whole law and what is kept 1 − ω of it, ω/(1 − ω) twice.
    fn change_left_out(&self) -> f64 {
        2.1 * self.left_out.exp()
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
        self.inner.quadrature_error() + self.change_left_out()
    }

    /// |φ| is at most ω above that of the whole law, over 1 − ω.
    fn log_decay(&mut self, y: f64) -> f64 {
        log_add(self.inner.log_decay(y), self.left_out).min(0.0) - (-self.left_out.exp()).ln_1p()
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut found = self.inner.changes(spacing, last);
        for change in found.iter_mut().skip(1) {
            change.error += self.change_left_out();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::loss::allocation::bins::Bins;

    /// The log moment of a whole law of which a law without some outputs lacks the part ω at the exponent w; what it lacks has a bound that depends on the moment.
    fn with_part(law: &TruncatedLaw, w: f64, part: f64) -> TiltedMoments {
        let mut log_moment = f64::INFINITY;
        for _ in 0..100 {
            log_moment = law.log_moment_left_out(w, log_moment) - part.ln();
        }
        TiltedMoments {
            log_moment: Approx::exact(log_moment),
            mean: 1.0,
            variance: 2.0,
        }
    }

    #[test]
    fn moments_without_the_rest_are_off_by_its_part() {
        let law = TruncatedLaw::new(&Bins::new(&[(10, 0.25)]).unwrap(), -30.0, f64::INFINITY).unwrap();
        for part in [1e-9f64, 0.1, 0.3] {
            let whole = with_part(&law, 2.0, part);
            let found = law.without_rest(2.0, whole);
            let off = -(-part).ln_1p();
            assert!((found.log_moment.error / off - 1.0).abs() < 1e-6, "{part} {found:?}");
        }
        // Where half of it may be left out nothing is known.
        let found = law.without_rest(2.0, with_part(&law, 2.0, 0.5));
        assert_eq!(found.log_moment.error, f64::INFINITY);
    }

    /// What is left out has the characteristic function −1 where that of the whole law is 1, or 1 where that is 0.
    #[test]
    fn transforms_without_the_rest_are_off_by_its_part_twice() {
        let law = TruncatedLaw::new(&Bins::new(&[(10, 0.25)]).unwrap(), -30.0, f64::INFINITY).unwrap();
        let part = 1e-12f64;
        let mut loss = StepLoss::shift(1.0);
        let plain = loss.tilted(1.0, -30.0).changes(1e-9, 1)[1].error;
        let mut tilted = TiltedWhole::new(&law, 2.0, loss.tilted(1.0, -30.0), with_part(&law, 2.0, part));
        // (1 − ω·(−1))/(1 − ω) − 1
        let off = 2.0 * part / (1.0 - part);
        let error = tilted.changes(1e-9, 1)[1].error - plain;
        assert!(off <= error && off > 0.9 * error, "{off:e} {error:e}");
        let error = tilted.quadrature_error();
        assert!(off <= error && error < 1e-11, "{off:e} {error:e}");
        // |φ| is far below that for the whole law, so that its bound consists of what is left out.
        let bound = tilted.log_decay(100.0);
        assert!(bound >= part.ln() && bound < part.ln() + 0.01, "{bound}");
        // And |φ| is 1 at the frequency 0.
        let bound = tilted.log_decay(0.0);
        assert!(bound >= part && bound < 1.9 * part, "{bound:e}");
    }
}
