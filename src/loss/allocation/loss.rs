//! The privacy loss of one epoch, or of one pass with fixed bins.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::central_moments::{BinomialSeries, CentralMoments, Power};
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::large_powers::LargePowers;
use crate::loss::allocation::large_ratio;
use crate::loss::allocation::little_noise;
use crate::loss::allocation::many_large::ManyLarge;
use crate::loss::allocation::mellin::{Mellin, locked};
use crate::loss::allocation::on_lattice::{PlaceLimit, SumsOnLattice};
use crate::loss::allocation::on_line::SumsOnLine;
use crate::loss::allocation::one_large;
use crate::loss::allocation::tilted::TransformLine;
use crate::loss::allocation::truncated_decay::partial_decay;
use crate::loss::allocation::truncated_law::TruncatedLaw;
use crate::loss::allocation::truncated_tilted::{TiltedByLine, TiltedWhole};
use crate::loss::allocation::vertical_line::VerticalLine;
use crate::loss::allocation::whole_tilted::{TiltedByIntegral, TiltedBySeries};
use crate::loss::privacy_loss::{
    Effort, LossByRatio, PrivacyLoss, RatioSplit, SharedTables, TiltedLoss, TiltedMoments,
};
use crate::step::Direction;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Mean of the tilted loss, in place of one that is beyond what is computed: searches for a tilt turn back there.
const BEYOND: f64 = 1e9;
/// Largest Y/t in what is kept. At 0.6 60,482 epochs of 61,109 batches with noise multiplier 1.29 take 90 ms in place of 4, as lines have too many points; at 0.2
/// five epochs of 2,428 batches with noise multiplier 2.2 have an ε that is 2e-5 wide at δ = 6e-28, and at 0.35 one that is 1e-7 wide.
const LARGEST_RATIO: f64 = 0.35;
/// Fewest batches for which outputs are left out: with 20 and noise multiplier 8 intervals are wider than those of the whole law, as the
/// bound on the transform of so few falls slowly.
const LEAST_BATCHES: f64 = 30.0;
/// Relative error of a moment from which on other bounds on it are looked at.
const BOUND_ALONE: f64 = 1e-3;
/// Moments of what is kept that are remembered.
const REMEMBERED: usize = 64;
/// v from which on a part of an epoch is summed on a lattice before other routes, if that takes few places. Of 200 random parts (noise 0.3 to 8,
/// δ from 1e-12 to 1e-3) 114 take over 10 ms; with 0.08 in its place 126 do, as inversion is faster where there is more noise.
const LATTICE_VARIANCE: f64 = 1.0;
/// log of the part of a moment that may be left out where the moment is that of a series for the whole law.
const NEGLIGIBLE_PART: f64 = -40.0;
/// Evaluations of a density that a term of a transform takes.
const WORK_OF_POINT: u64 = 20;

/// The loss of one epoch in which each record is in one batch.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    bins: Bins,
    direction: Direction,
    /// Shared by all copies. What is found does not depend on what was found before.
    mellin: Arc<Mutex<Mellin>>,
    /// Sums on lattices and on lines, shared by all copies.
    on_lattice: Arc<SumsOnLattice>,
    on_line: Arc<SumsOnLine>,
    /// Moments of exponents beyond those of `mellin`.
    large_powers: LargePowers,
    /// What is kept where outputs with a large likelihood ratio in some batch are left out, and what is known of its moments.
    kept: Option<(TruncatedLaw, Vec<(f64, TiltedMoments)>)>,
    /// Whether what is kept has no large likelihood ratio.
    has_no_large_ratio: bool,
    /// Cost of lines.
    work: Arc<AtomicU64>,
    /// True if work on `mellin` counts for this one: for the whole law, as the copies without some outcomes use the same.
    counts_moments: bool,
    /// Central moments of W, shared by all copies.
    central: Arc<CentralMoments>,
}

impl StepLoss {
    /// The loss where a record is in one of the batches of `bins`.
    pub(crate) fn allocation(bins: Bins, direction: Direction) -> Self {
        Self::new(Allocation::new(bins, direction))
    }
}

impl Allocation {
    /// The loss where a record is in one of the batches of `bins`.
    pub(super) fn new(bins: Bins, direction: Direction) -> Self {
        Self {
            mellin: Arc::new(Mutex::new(Mellin::new(bins.clone()))),
            on_lattice: Arc::new(SumsOnLattice::new(bins.clone(), direction)),
            on_line: Arc::new(SumsOnLine::new(bins.clone(), direction)),
            central: Arc::new(CentralMoments::new(&bins)),
            bins,
            direction,
            large_powers: LargePowers::default(),
            kept: None,
            has_no_large_ratio: false,
            work: Arc::default(),
            counts_moments: true,
        }
    }

    fn mellin(&self) -> MutexGuard<'_, Mellin> {
        locked(&self.mellin)
    }

    /// A copy that counts work of its own only.
    fn copy(&self) -> Self {
        Self {
            work: Arc::default(),
            counts_moments: false,
            ..self.clone()
        }
    }

    /// The exponent of W in e^{cℓ} under P.
    fn exponent(&self, c: f64) -> f64 {
        match self.direction {
            Direction::Remove => 1.0 + c,
            Direction::Add => -c,
        }
    }

    /// The binomial series at c that is accurate up to |Im c| = `reach`, if there is one.
    fn series(&self, c: f64, reach: f64) -> Option<BinomialSeries> {
        let power = match self.direction {
            Direction::Remove => Power { whole: 1.0, rest: c },
            Direction::Add => Power { whole: 0.0, rest: -c },
        };
        self.central.series(power, reach)
    }

    /// K(c) by a series.
    fn moments_by(&self, series: &BinomialSeries) -> TiltedMoments {
        TiltedMoments {
            log_moment: series.log_moment(),
            mean: self.direction.sign() * series.mean,
            variance: series.variance,
        }
    }

    /// K(c); beyond what is computed the bound c(c + 1)v/2, which holds as powers are convex, with an error of all of it.
    fn whole_moments(&self, c: f64) -> TiltedMoments {
        if let Some(series) = self.series(c, 0.0) {
            return self.moments_by(&series);
        }
        self.integrated_moments(c)
    }

    /// K(c) by an integral or the bound.
    fn integrated_moments(&self, c: f64) -> TiltedMoments {
        if let Some(found) = self.mellin().real(self.exponent(c)) {
            let exact = c == 0.0;
            return TiltedMoments {
                log_moment: if exact {
                    Approx::exact(0.0)
                } else {
                    Approx::new(found.log, found.error)
                },
                mean: self.direction.sign() * found.mean,
                variance: found.variance,
            };
        }
        let half = 0.25 * self.bins.widest() * c * (c + 1.0) * (1.0 + 1e-14);
        TiltedMoments {
            log_moment: Approx::new(half, half.abs()),
            mean: BEYOND * (1.0 + c),
            variance: 1.0,
        }
    }

    /// K(c) of what is kept.
    fn moments_at(&mut self, c: f64) -> TiltedMoments {
        let w = self.exponent(c);
        let Some((law, known)) = &self.kept else {
            return self.whole_moments(c);
        };
        if let Some((_, known)) = known.iter().find(|(tilt, _)| *tilt == c) {
            return *known;
        }
        let found = match self.series_of_kept(law, c) {
            Some((_, moments)) => law.without_rest(w, moments),
            None => match law.line(w) {
                Some(line) => {
                    self.count(&line);
                    line.moments()
                }
                None => law.without_rest(w, self.whole_moments(c)),
            },
        };
        if let Some((_, known)) = &mut self.kept {
            if known.len() >= REMEMBERED {
                known.remove(0);
            }
            known.push((c, found));
        }
        found
    }

    /// The whole law at the tilt of a series, and what is asked where that is not accurate.
    fn tilted_by_series<'a>(
        &'a self,
        series: BinomialSeries,
        otherwise: impl Fn() -> Box<dyn TiltedLoss + 'a> + 'a,
    ) -> TiltedBySeries<'a> {
        let decay = self.decay(series.power.value(), series.log_moment().lower());
        let law = (&*self.central, self.direction);
        TiltedBySeries::new(law, series, (self.moments_by(&series), decay), otherwise)
    }

    /// The whole law tilted by e^{cℓ}, from an integral.
    fn tilted_by_integral(&self, c: f64) -> Box<dyn TiltedLoss + '_> {
        let real = self.mellin().real(self.exponent(c));
        let line = real.map(|real| TransformLine {
            decay: self.decay(real.exponent.w, real.log - real.error),
            mellin: &self.mellin,
            real,
            log_total: self.bins.total.ln(),
        });
        Box::new(TiltedByIntegral::new(line, self.integrated_moments(c), self.direction))
    }

    /// What is kept, tilted by e^{cℓ}.
    fn kept_tilted<'a>(&'a self, law: &'a TruncatedLaw, c: f64) -> Box<dyn TiltedLoss + 'a> {
        let w = self.exponent(c);
        let Some(line) = law.line(w) else {
            let whole = self.integrated_moments(c);
            return Box::new(TiltedWhole::new(law, w, self.tilted_by_integral(c), whole));
        };
        self.count(&line);
        let partial = (self.bins.still > 0.0).then(|| {
            let transform = self.mellin().transform();
            partial_decay((&self.bins, &transform), law, &line)
        });
        Box::new(TiltedByLine { law, line, partial })
    }

    /// Counts the cost of a line.
    fn count(&self, line: &VerticalLine) {
        self.work
            .fetch_add(WORK_OF_POINT * line.size() as u64, Ordering::Relaxed);
    }

    /// What bounds the decay of M on the line through w, where log M(w) is at least `log_moment`.
    fn decay(&self, w: f64, log_moment: f64) -> Decay {
        let transform = if self.bins.still > 0.0 {
            self.mellin().transform()
        } else {
            Vec::new()
        };
        Decay::new(&self.bins, &transform, (w, log_moment))
    }

    /// The series at c and its moments, where what is left out does not count at that tilt.
    fn series_of_kept(&self, law: &TruncatedLaw, c: f64) -> Option<(BinomialSeries, TiltedMoments)> {
        let series = self.series(c, 0.0)?;
        let moments = self.moments_by(&series);
        let left_out = law.log_part_left_out(self.exponent(c), &moments);
        (left_out < NEGLIGIBLE_PART).then_some((series, moments))
    }
}

impl PrivacyLoss for Allocation {
    fn moments(&mut self, c: f64, _log_tolerance: f64) -> TiltedMoments {
        self.moments_at(c)
    }

    /// Beyond the exponents that are integrals, powers of W have bounds of their own.
    fn log_moment_above(&mut self, c: f64, log_tolerance: f64) -> f64 {
        let known = self.moments(c, log_tolerance).log_moment;
        // An error of this size is that of a bound in place of the moment.
        if self.kept.is_some() || known.error < BOUND_ALONE * known.value.abs() {
            return known.upper();
        }
        let bound = match self.direction {
            Direction::Remove => self.large_powers.log_above(&self.bins, self.exponent(c)),
            Direction::Add => self.bins.log_negative_moment(c),
        };
        bound.min(known.upper())
    }

    /// Moments are tabled and cost little, but a contour at a tilt of the lattice lacks digits where one at the saddle point does not: 248 bins
    /// that stay, σ 2.6, had an ε 1 % wide. Without the lattice 71 and not 75 of a hundred settings take at most 10 ms.
    fn has_cheap_moments(&self) -> bool {
        false
    }

    /// Of what is kept where no ratio is large, where no series knows them. With large ones estimates would be of no use.
    fn estimated_moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        if let Some((law, _)) = &self.kept
            && self.has_no_large_ratio
            && self.series(c, 0.0).is_none()
            && let Some(found) = law.estimated_moments(self.exponent(c))
        {
            return found;
        }
        self.moments(c, log_tolerance)
    }

    fn tilted(&mut self, c: f64, _log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        let this = &*self;
        let Some((law, _)) = &this.kept else {
            return match this.series(c, 0.0) {
                Some(series) => Box::new(this.tilted_by_series(series, move || this.tilted_by_integral(c))),
                None => this.tilted_by_integral(c),
            };
        };
        let Some((series, moments)) = this.series_of_kept(law, c) else {
            return this.kept_tilted(law, c);
        };
        let inner = this.tilted_by_series(series, move || this.kept_tilted(law, c));
        Box::new(TiltedWhole::new(law, this.exponent(c), Box::new(inner), moments))
    }

    /// Where there is much noise and some of thousands of batches are not released, little is known of the transform without large outputs, and no
    /// outputs are large: without this, 4,764 of 5,104 batches with noise 67 have an ε 8 % wide at δ = 6.5e-12. Tried for all epochs, it takes what the
    /// table of a chain of records may cost.
    fn is_better_whole(&self) -> bool {
        self.direction == Direction::Remove && self.bins.still > 0.0
    }

    /// Bounds that are narrow where noise is so little that one batch stands out.
    fn one_step(&self, epsilon: f64, _width: f64, _effort: &mut Effort) -> Enclosure {
        if self.kept.is_some() {
            return Enclosure::TRIVIAL;
        }
        let found = little_noise::delta(&self.bins, self.direction, epsilon);
        match self.direction {
            Direction::Remove => one_large::delta(&self.bins, epsilon).map_or(found, |other| other.meet(found)),
            Direction::Add => found,
        }
    }

    /// Parts of epochs are summed on a lattice, and whole epochs where nothing else answers to the width that is asked for, unless more places than a
    /// lattice may have would be needed: 10⁵ batches with noise 1 at δ = 1e-20 took 9 s then, and had an interval as wide as before.
    fn alone(&self, epsilon: f64, width: f64, is_last: bool, tables: &mut SharedTables) -> Enclosure {
        if self.kept.is_some() {
            return Enclosure::TRIVIAL;
        }
        let found = self.on_line.delta(epsilon, tables);
        if found.width() <= width {
            return found;
        }
        let is_part = self.bins.still > 0.0;
        let places = match (is_part, is_last) {
            (true, true) => PlaceLimit::Any,
            (true, false) if self.bins.widest() >= LATTICE_VARIANCE => PlaceLimit::Few,
            (false, true) => PlaceLimit::Enough,
            _ => return found,
        };
        found.meet(self.on_lattice.delta(epsilon, width, places, tables))
    }

    fn estimate_alone(&self, log_delta: f64) -> Option<(f64, f64)> {
        let by_one = match self.direction {
            Direction::Remove if self.kept.is_none() => one_large::estimate(&self.bins, log_delta),
            _ => None,
        };
        by_one.or_else(|| self.on_line.estimate(log_delta))
    }

    /// An epoch alone is inverted like a run of several.
    fn has_closed_form(&self) -> bool {
        false
    }

    fn truncated(&self, log_mass: f64, steps: f64) -> (StepLoss, f64) {
        if self.kept.is_some() || self.direction == Direction::Add {
            return (StepLoss::new(self.copy()), f64::NEG_INFINITY);
        }
        let law = TruncatedLaw::far(&self.bins, log_mass, steps).or_else(|| {
            let has_many = self.bins.total >= LEAST_BATCHES;
            has_many
                .then(|| TruncatedLaw::new(&self.bins, log_mass, LARGEST_RATIO))
                .flatten()
        });
        let log_left_out = law.as_ref().map_or(f64::NEG_INFINITY, |law| law.log_left_out);
        let truncated = Self {
            kept: law.map(|law| (law, Vec::new())),
            ..self.copy()
        };
        (StepLoss::new(truncated), log_left_out)
    }

    fn by_large_ratio(&self, split: &RatioSplit) -> LossByRatio {
        let is_whole = self.kept.is_none() && self.direction == Direction::Remove;
        let found = is_whole.then(|| large_ratio::split(&self.bins, split)).flatten();
        let Some((law, one, [log_some, log_beyond])) = found else {
            return LossByRatio::without_large(self, split);
        };
        let many = Box::new(ManyLarge::new(law.clone()));
        let none = Self {
            kept: Some((law, Vec::new())),
            has_no_large_ratio: true,
            ..self.copy()
        };
        let one = one.into_iter().map(|(loss, range)| (StepLoss::new(loss), range));
        LossByRatio {
            none: StepLoss::new(none),
            one: one.collect(),
            many: Some(many),
            log_some,
            log_beyond,
        }
    }

    fn density_terms(&self) -> usize {
        1
    }

    fn work(&self) -> u64 {
        let of_moments = if self.counts_moments { self.mellin().work() } else { 0 };
        self.work.load(Ordering::Relaxed) + of_moments
    }

    /// The pair of the widest batch: that of an epoch is a mixture of such pairs with the same Q.
    fn widest_distance(&self) -> Option<f64> {
        Some(self.bins.widest().sqrt())
    }
}

#[cfg(test)]
mod tests;
