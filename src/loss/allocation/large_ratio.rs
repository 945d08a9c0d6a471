//! The privacy loss of an epoch in which exactly one batch has a large likelihood ratio, and the split of a loss into that and the rest.
//!
//! After several epochs a loss comes about in two ways: many batches with a moderate likelihood ratio, or one with a large one. No tilt serves both, as
//! the one that the first asks for makes nearly all of a moment of single large ratios. So outputs are split by the batches whose normal variable is
//! above some a: none, one within a range, and all others, which are so rare that they are left out. The loss where one batch is in a range has the transform of that
//! batch as a factor ([`LargeBatch`](super::large_batch::LargeBatch)), on the same lines as that where none is.

use crate::approx::Approx;
use crate::loss::StepLoss;
use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::ends::{largest, least_end, log_left_out};
use crate::loss::allocation::truncated_law::TruncatedLaw;
use crate::loss::allocation::truncated_tilted::TiltedByLine;
use crate::loss::allocation::vertical_line::VerticalLine;
use crate::loss::privacy_loss::{PrivacyLoss, RatioRange, RatioSplit, TiltedLoss, TiltedMoments};
use std::sync::atomic::{AtomicU64, Ordering};

/// Evaluations of a density that a point of a line takes, about.
const WORK_OF_POINT: u64 = 20;
/// Moments that are remembered: those of one search.
const REMEMBERED: usize = 64;
/// Largest Y/t where no ratio is large. With 0.6 runs at δ below 1e-50 are not split that are answered with it; beyond 5 the moments are those of the
/// largest ratios again.
const LARGEST_RATIO: f64 = 5.0;
/// Fewest batches for which outputs are split: with fewer, other routes are as close in less time.
const LEAST_BATCHES: f64 = 1000.0;

/// The laws of the outputs without large ratios and of those with one, with its range, and the logarithms of the probabilities of
/// [`LossByRatio`](crate::loss::privacy_loss::LossByRatio).
type Split = (TruncatedLaw, Vec<(OneLargeRatio, RatioRange)>, [f64; 2]);

/// The outputs of an epoch without large ratios and those with one; `None` where that does not separate them.
pub(super) fn split(bins: &Bins, split: &RatioSplit) -> Option<Split> {
    let (start, end) = (least_end(bins, split.log_mass), least_end(bins, split.log_mass_beyond));
    // A ratio whose loss is below the standard deviation of that of the run matters for none of its outputs that are rare.
    let variance: f64 = bins.parts.iter().map(|part| part.count * part.variance.exp_m1()).sum();
    let deviation = (split.steps * variance).sqrt() / bins.total;
    let largest_loss = (largest(bins.widest(), end) / bins.total).ln_1p();
    let is_of_use = bins.total >= LEAST_BATCHES && largest_loss > deviation;
    // With an end that is far for one epoch that has all of the loss no ratio counts much under any tilt.
    if !is_of_use || TruncatedLaw::far(bins, split.log_mass_beyond, 1.0).is_some() {
        return None;
    }
    let law = TruncatedLaw::up_to(bins, start)?;
    if start >= end || law.parts.iter().any(|part| part.largest > LARGEST_RATIO) {
        return None;
    }
    let mut one = Vec::new();
    for (i, part) in bins.parts.iter().enumerate() {
        let between = split
            .losses
            .iter()
            .map(|&loss| normal_variable(part, bins.total, loss))
            .filter(|g| start < *g && *g < end);
        let mut low = start;
        for high in between.chain([end]) {
            let range = RatioRange {
                lowest: (largest(part.variance, low) / bins.total).ln_1p(),
                log_mass: log_left_out(bins, low).0,
                part: i,
                ends: (low, high),
            };
            one.push((OneLargeRatio::new(law.with_one_between(i, (low, high))?), range));
            low = high;
        }
    }
    let masses = [log_left_out(bins, start).0, log_left_out(bins, end).0];
    Some((law, one, masses))
}

/// The normal variable of a batch for which an epoch has this loss where all other ratios are 1.
fn normal_variable(part: &Part, total: f64, loss: f64) -> f64 {
    let ratio = 1.0 + total * loss.exp_m1();
    (ratio.ln() + 0.5 * part.variance) / part.variance.sqrt()
}

/// The loss of an epoch in which exactly one batch has a large likelihood ratio, where the record is removed.
#[derive(Debug)]
pub(super) struct OneLargeRatio {
    law: TruncatedLaw,
    known: Vec<(f64, TiltedMoments)>,
    work: AtomicU64,
}

impl OneLargeRatio {
    fn new(law: TruncatedLaw) -> Self {
        Self {
            law,
            known: Vec::new(),
            work: AtomicU64::new(0),
        }
    }

    fn line(&self, c: f64) -> Option<VerticalLine> {
        let line = self.law.line(1.0 + c)?;
        self.work
            .fetch_add(WORK_OF_POINT * line.size() as u64, Ordering::Relaxed);
        Some(line)
    }
}

/// What stands for moments that are not known.
const UNKNOWN: TiltedMoments = TiltedMoments {
    log_moment: Approx::new(0.0, f64::INFINITY),
    mean: 0.0,
    variance: 0.0,
};

impl PrivacyLoss for OneLargeRatio {
    fn moments(&mut self, c: f64, _log_tolerance: f64) -> TiltedMoments {
        if let Some((_, known)) = self.known.iter().find(|(tilt, _)| *tilt == c) {
            return *known;
        }
        let found = self.line(c).map_or(UNKNOWN, |line| line.moments());
        if self.known.len() >= REMEMBERED {
            self.known.remove(0);
        }
        self.known.push((c, found));
        found
    }

    fn estimated_moments(&mut self, c: f64, _log_tolerance: f64) -> TiltedMoments {
        self.law.estimated_moments(1.0 + c).unwrap_or(UNKNOWN)
    }

    fn tilted(&mut self, c: f64, _log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        match self.line(c) {
            Some(line) => Box::new(TiltedByLine {
                law: &self.law,
                line,
                partial: None,
            }),
            None => Box::new(Unknown),
        }
    }

    fn has_cheap_moments(&self) -> bool {
        false
    }

    fn has_closed_form(&self) -> bool {
        false
    }

    /// Nothing more is left out.
    fn truncated(&self, _log_mass: f64, _steps: f64) -> (StepLoss, f64) {
        (StepLoss::new(Self::new(self.law.clone())), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        1
    }

    fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }
}

/// A tilted loss of which nothing is known.
struct Unknown;

impl TiltedLoss for Unknown {
    fn moments(&self) -> TiltedMoments {
        UNKNOWN
    }

    fn size(&self) -> usize {
        0
    }

    fn log_decay(&mut self, _y: f64) -> f64 {
        0.0
    }

    fn changes(&self, _spacing: f64, last: usize) -> Vec<Approx<realfft::num_complex::Complex64>> {
        vec![Approx::new(realfft::num_complex::Complex64::default(), 2.0); last + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::truncated_decay::log_decay;
    use realfft::num_complex::Complex64;
    use std::f64::consts::TAU;

    /// E[f(Y₁, Y₂); g₁ and g₂ in these ranges] of two likelihood ratios with the same v, by the midpoint rule.
    fn of_two(v: f64, ranges: [(f64, f64); 2], f: impl Fn(f64, f64) -> Complex64) -> Complex64 {
        let count = 1500;
        let points = |(low, high): (f64, f64)| {
            let step = (high - low) / f64::from(count);
            let point = move |i: i32| {
                let g = low + (f64::from(i) + 0.5) * step;
                ((v.sqrt() * g - 0.5 * v).exp(), (-0.5 * g * g).exp() * step / TAU.sqrt())
            };
            (0..count).map(point).collect::<Vec<_>>()
        };
        let (first, second) = (points(ranges[0]), points(ranges[1]));
        let row = |&(y, weight): &(f64, f64)| {
            let inner: Complex64 = second.iter().map(|(z, other)| f(y, *z) * *other).sum();
            inner * weight
        };
        first.iter().map(row).sum()
    }

    fn one_of_two(v: f64, start: f64, range: (f64, f64)) -> TruncatedLaw {
        let law = TruncatedLaw::up_to(&Bins::new(&[(2, v)]).unwrap(), start).unwrap();
        law.with_one_between(0, range).unwrap()
    }

    /// Of two batches either may be the one with the large ratio.
    #[test]
    fn moments_with_one_large_ratio_are_those_of_integrals() {
        for (v, start, range, w) in [
            (0.25f64, 1.5, (1.5, 2.5), 12.0),
            (0.5, 1.5, (2.0, 2.5), 20.0),
            (0.25, 2.0, (3.0, 4.0), 30.0),
        ] {
            let law = one_of_two(v, start, range);
            let exact = |y: f64| {
                let power = |a: f64, b: f64| (Complex64::new(w, y) * (0.5 * (a + b)).ln()).exp() * 2.0;
                of_two(v, [(-9.0, start), range], power)
            };
            let whole = exact(0.0).re;
            let line = VerticalLine::new(&law, w, 8.0).unwrap();
            let off = (line.log.value - whole.ln()).abs();
            assert!(
                off < line.log.error + 1e-4 && line.log.error < 1e-9,
                "{v} {w}: {off} {:?}",
                line.log
            );
            for y in [1.0, 4.0, 8.0] {
                let (found, exact) = (line.change(y), exact(y) / whole - 1.0);
                assert!(
                    (found.value - exact).norm() < found.error + 2e-4,
                    "{v} {w} {y}: {found:?} {exact}"
                );
                assert!(found.error < 1e-8, "{v} {w} {y}: {found:?}");
                let (bound, exact) = (log_decay(&law, &line, None, y), (exact + 1.0).norm().ln());
                assert!(exact <= bound + 1e-3, "{v} {w} {y}: {bound} {exact}");
            }
            let about = law.estimated_moments(w).unwrap();
            let known = line.moments();
            assert!(
                (about.log_moment.value - known.log_moment.value).abs() < 0.5,
                "{about:?} {known:?}"
            );
        }
    }

    /// All outputs up to b are those without a ratio above a, those with one and those with two.
    #[test]
    fn moments_of_all_outputs_are_those_of_their_parts() {
        let (v, start, end, w) = (0.25f64, 1.0, 2.5, 12.0);
        let bins = Bins::new(&[(2, v)]).unwrap();
        let log_of = |law: &TruncatedLaw| VerticalLine::new(law, w, 0.0).unwrap().log.value;
        let whole = log_of(&TruncatedLaw::up_to(&bins, end).unwrap()).exp();
        let none = log_of(&TruncatedLaw::up_to(&bins, start).unwrap()).exp();
        let one =
            log_of(&one_of_two(v, start, (start, 1.75))).exp() + log_of(&one_of_two(v, start, (1.75, end))).exp();
        let power = |a: f64, b: f64| Complex64::from((0.5 * (a + b)).powf(w));
        let both = of_two(v, [(start, end); 2], power).re;
        assert!(
            (none + one + both - whole).abs() < 1e-6 * whole,
            "{none} {one} {both} {whole}"
        );
    }

    /// The transform of many batches of which one has a large ratio decays as that of the others, and no faster than bounded.
    #[test]
    fn many_batches_decay_as_those_that_are_not_large() {
        let (batches, v, w) = (3000u64, 0.5f64, 60.0);
        let law = TruncatedLaw::up_to(&Bins::new(&[(batches, v)]).unwrap(), 7.0).unwrap();
        let law = law.with_one_between(0, (9.0, 9.001)).unwrap();
        let spread = (v.exp_m1() / batches as f64).sqrt() / (1.0 + largest(v, 9.0) / batches as f64);
        let line = VerticalLine::new(&law, w, 6.0 / spread).unwrap();
        for i in 1..6 {
            let y = f64::from(i) / spread;
            let (found, bound) = (line.change(y), log_decay(&law, &line, None, y));
            let modulus = (found.value + 1.0).norm();
            assert!(modulus - found.error <= bound.exp(), "{i}: {found:?} {bound}");
            let normal = -0.5 * f64::from(i * i);
            assert!(
                modulus.ln() < 0.8 * normal && (i < 4 || bound < 0.2 * normal),
                "{i}: {bound} {modulus}"
            );
        }
    }

    /// The probability under P of a ratio above the start of a range, of which half would be too little.
    #[test]
    fn ranges_have_bounds_on_their_probabilities() {
        let bins = Bins::new(&[(5000, 0.7)]).unwrap();
        let losses = [0.05, 0.2, 0.5];
        let split = RatioSplit {
            steps: 10.0,
            log_mass: -18.0,
            log_mass_beyond: -45.0,
            losses: &losses,
        };
        let (law, one, [some, beyond]) = super::split(&bins, &split).unwrap();
        let exact = |g: f64| {
            let tail = |x: f64| 0.5 * libm::erfc(x / std::f64::consts::SQRT_2);
            (5000.0 * tail(g) + tail(g - 0.7f64.sqrt())).ln()
        };
        assert!(
            (some - exact(law.parts[0].end)).abs() < 1e-3 && some <= -18.0 && some > -18.1,
            "{some}"
        );
        assert!(beyond <= -45.0 && beyond > -45.1 && one.len() >= 3, "{beyond}");
        for (i, (_, range)) in one.iter().enumerate() {
            let ratio = 5000.0 * range.lowest.exp_m1();
            let g = (ratio.ln() + 0.35) / 0.7f64.sqrt();
            let exact = exact(g);
            assert!(
                exact <= range.log_mass && range.log_mass < exact + 0.01,
                "{i}: {range:?} {exact}"
            );
        }
        let few = Bins::new(&[(500, 0.7)]).unwrap();
        assert!(super::split(&few, &split).is_none());
        let long = RatioSplit { steps: 1e9, ..split };
        assert!(super::split(&bins, &long).is_none());
    }
}
