//! The tilted loss of random allocation, all outputs included.

use crate::approx::Approx;
use crate::loss::allocation::central_moments::{BinomialSeries, CentralMoments, Power};
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::tilted::TransformLine;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::step::Direction;
use realfft::num_complex::Complex64;

/// The loss tilted by e^{cℓ}, from an integral.
pub(super) struct TiltedByIntegral<'a> {
    /// `None` beyond what is computed.
    line: Option<TransformLine<'a>>,
    moments: TiltedMoments,
    direction: Direction,
    reach: f64,
}

impl<'a> TiltedByIntegral<'a> {
    pub(super) fn new(line: Option<TransformLine<'a>>, moments: TiltedMoments, direction: Direction) -> Self {
        Self {
            line,
            moments,
            direction,
            reach: 0.0,
        }
    }
}

impl TiltedLoss for TiltedByIntegral<'_> {
    fn moments(&self) -> TiltedMoments {
        self.moments
    }

    fn size(&self) -> usize {
        self.line.as_ref().map_or(1, |line| line.size(self.reach))
    }

    fn certify(&mut self, reach: f64) {
        self.reach = reach;
    }

    fn quadrature_error(&self) -> f64 {
        if self.line.is_some() { 0.0 } else { 2.0 }
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.line.as_ref().map_or(0.0, |line| line.log_decay(y))
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let Some(line) = &self.line else {
            return vec![Approx::new(Complex64::default(), 2.0); last + 1];
        };
        let mut found = line.changes(spacing, last);
        if self.direction == Direction::Remove {
            for change in &mut found {
                change.value = change.value.conj();
            }
        }
        found
    }
}

/// What makes the tilted loss where the series is not accurate.
type Otherwise<'a> = Box<dyn Fn() -> Box<dyn TiltedLoss + 'a> + 'a>;

/// The loss tilted by e^{cℓ}, from the binomial series as far as that is accurate.
pub(super) struct TiltedBySeries<'a> {
    central: &'a CentralMoments,
    direction: Direction,
    power: Power,
    /// The series that is accurate up to the certified frequency.
    series: Option<BinomialSeries>,
    moments: TiltedMoments,
    decay: Decay,
    otherwise: Otherwise<'a>,
    /// The loss beyond what the series serves.
    other: Option<Box<dyn TiltedLoss + 'a>>,
}

impl<'a> TiltedBySeries<'a> {
    /// At the tilt of a series, where the loss has these moments and this decay.
    pub(super) fn new(
        (central, direction): (&'a CentralMoments, Direction),
        series: BinomialSeries,
        (moments, decay): (TiltedMoments, Decay),
        otherwise: impl Fn() -> Box<dyn TiltedLoss + 'a> + 'a,
    ) -> Self {
        Self {
            central,
            direction,
            power: series.power,
            series: Some(series),
            moments,
            decay,
            otherwise: Box::new(otherwise),
            other: None,
        }
    }
}

impl TiltedLoss for TiltedBySeries<'_> {
    fn moments(&self) -> TiltedMoments {
        self.other.as_ref().map_or(self.moments, |other| other.moments())
    }

    fn size(&self) -> usize {
        let own = self.series.map_or(1, |series| series.terms);
        self.other.as_ref().map_or(own, |other| other.size())
    }

    fn certify(&mut self, reach: f64) {
        self.series = self.central.series(self.power, reach);
        if self.series.is_none() {
            let mut other = (self.otherwise)();
            other.certify(reach);
            self.other = Some(other);
        }
    }

    fn quadrature_error(&self) -> f64 {
        self.other.as_ref().map_or(0.0, |other| other.quadrature_error())
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        let other = self.other.as_mut().map_or(0.0, |other| other.log_decay(y));
        self.decay.log_bound(y.abs()).min(other)
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        if let Some(other) = &self.other {
            return other.changes(spacing, last);
        }
        // M(w − iy) of an added record is its transform at y, and the conjugate of that of a removed one.
        let step = match self.direction {
            Direction::Remove => spacing,
            Direction::Add => -spacing,
        };
        let at = |i: usize| match (i, &self.series) {
            (0, _) | (_, None) => Approx::exact(Complex64::default()),
            (_, Some(series)) => self.central.change(series, i as f64 * step),
        };
        (0..=last).map(at).collect()
    }
}
