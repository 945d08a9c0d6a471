//! Estimates of the moments of a smooth loss, by one rule of fixed nodes for all tilts.
//!
//! A search for a tilt asks for the moments at ten or twenty tilts and needs few digits of each. The certified search of `smooth_nodes`
//! examines the panels anew for every tilt, which takes fifty times as long as a sum over nodes that are known. Nothing rests on an
//! estimate: its error counts as infinite, so that no bound can be made of it, and what was chosen by estimates is confirmed by
//! certified moments (`inversion::saddle`, `inversion::tilt`).
//!
//! The nodes are those of the Gauss–Legendre rule on all dyadic panels of about [`PANEL_WIDTH`] standard deviations of the noise. On an
//! output with a maximum of the integrand P·e^{cℓ} it falls no faster than the noise does, as the loss of a mixture against the noise is
//! convex, so that the panels need not be shorter for large tilts; next to the ends of a gate they are as short as its width asks for.
//! They depend on the loss alone, and not on earlier questions.

use crate::loss::fixed_rule::FixedRule;
use crate::loss::privacy_loss::TiltedMoments;
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::Piece;
use crate::special::adaptive::Address;

/// Largest length of a panel, in standard deviations of the noise. With twice as long ones the moments of one record at noise 5 and tilt 30 have
/// four digits in place of ten.
const PANEL_WIDTH: f64 = 8.0;
/// Length of panels where the largest shift is more than so many standard deviations: with longer ones 16 records at noise 1/2 have five digits
/// at tilt 2, with these nine.
const SHORT_PANEL_WIDTH: f64 = 4.0;
const FAR_APART: f64 = 1.5;
/// Most panels of one loss: a group of hundreds with little noise, of which only some outputs matter at a tilt, is left to the certified search.
const MOST_PANELS: i64 = 40;
/// Widths beyond the ends of a gate that its part is searched in, and length of panels within that, in widths: beyond, a gate lets less than 1e-23 pass.
const GATE_REACH: f64 = 10.0;
const LONGEST_AT_GATE: f64 = 8.0;
/// Standard deviations of the noise beyond which it has less than 1e-20 of its mass.
const NOISE_REACH: f64 = 9.5;

impl SmoothLoss {
    /// The moments of the loss tilted by e^{cℓ}, of which no error is known; `None` where the fixed nodes do not serve.
    pub(crate) fn estimate(&mut self, c: f64) -> Option<TiltedMoments> {
        if c < 0.0 {
            return None;
        }
        if self.fixed_rule.is_none() {
            let rule = self.make_fixed_rule();
            self.fixed_rule = Some(rule);
        }
        let rule = self.fixed_rule.as_ref()?.as_ref()?;
        self.work += rule.size() as u64;
        let removed = (!self.has_gates()).then_some(self.removed.value);
        rule.moments(c, self.atom, removed)
    }

    /// The rule, if every piece has one.
    fn make_fixed_rule(&mut self) -> Option<FixedRule> {
        let mut addresses = Vec::new();
        for (piece, of) in self.pieces().iter().enumerate() {
            let panels = panels_of(of)?.into_iter();
            addresses.extend(panels.map(|(level, index)| Address { piece, level, index }));
        }
        let mut rule = FixedRule::default();
        for address in addresses {
            rule.add(self.points_of(address)?);
        }
        Some(rule)
    }
}

/// The level and the places of the panels that cover a piece; `None` for one that no end bounds where tilts move its mass, and where there would be too
/// many.
fn panels_of(piece: &Piece) -> Option<Vec<(i32, i64)>> {
    let sigma = piece.noise_multiplier();
    let reach = NOISE_REACH * sigma;
    let (mut from, mut to) = (piece.start.max(-reach), piece.end);
    if let Some(gate) = piece.gate {
        from = from.max(gate.from - GATE_REACH * gate.width);
        to = to.min(gate.to + GATE_REACH * gate.width);
    }
    if !piece.in_p {
        to = to.min(reach);
    } else if to.is_infinite() {
        return None;
    }
    let far_apart = piece.largest_shift() > FAR_APART * sigma;
    let longest = sigma * if far_apart { SHORT_PANEL_WIDTH } else { PANEL_WIDTH };
    let level = (longest / sigma).log2().floor() as i32;
    let width = f64::powi(2.0, level) * sigma;
    let place = |x: f64| (x - piece.origin) / width;
    let (first, last) = (place(from).floor(), place(to).ceil());
    if !(last > first && last - first <= MOST_PANELS as f64) {
        return None;
    }
    let mut panels = piece.within((first as i64..last as i64).rev().map(|place| (level, place)).collect());
    let Some(gate) = piece.gate else {
        return Some(panels);
    };
    let is_at_gate = |(level, place): (i32, i64)| {
        let width = f64::powi(2.0, level) * sigma;
        let low = piece.origin + width * place as f64;
        let is_near =
            |end: f64| end > low - GATE_REACH * gate.width && end < low + width + GATE_REACH * gate.width;
        width > LONGEST_AT_GATE * gate.width && (is_near(gate.from) || is_near(gate.to))
    };
    let mut found = Vec::new();
    while let Some((level, place)) = panels.pop() {
        if is_at_gate((level, place)) {
            panels.extend([(level - 1, 2 * place + 1), (level - 1, 2 * place)]);
        } else {
            found.push((level, place));
        }
        if found.len() + panels.len() > MOST_PANELS as usize {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    /// At the tilts of most questions estimates have nine digits of what the certified search finds, and their error counts as infinite.
    #[test]
    fn estimates_are_close_to_certified_moments_and_no_bounds() {
        for (records, rate, sigma) in [
            (1, 0.01, 1.0),
            (1, 1e-5, 0.3),
            (1, 0.5, 20.0),
            (4, 0.01, 0.6),
            (16, 0.05, 4.0),
            (64, 0.01, 1.0),
        ] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let loss = StepLoss::mixture(&law, sigma, direction).unwrap().unwrap();
                let (mut loss, _) = loss.truncated(-40.0, 1.0);
                for c in [0.1, 0.5, 2.0] {
                    let (found, certified) = (loss.estimated_moments(c, -40.0), loss.moments(c, -40.0));
                    let relative = |found: f64, exact: f64| ((found - exact) / exact).abs();
                    let named = format!("{records} {rate} {sigma} {direction:?} {c}: {found:?} {certified:?}");
                    assert!(found.log_moment.error.is_infinite(), "{named}");
                    assert!(
                        relative(found.log_moment.value, certified.log_moment.value) < 1e-9,
                        "{named}"
                    );
                    assert!(
                        (found.mean - certified.mean).abs() < 1e-8 * certified.variance.sqrt(),
                        "{named}"
                    );
                    assert!(relative(found.variance, certified.variance) < 1e-7, "{named}");
                }
            }
        }
    }

    /// Behind gates, wide and narrow ones, panels are as short as these ask for.
    #[test]
    fn estimates_behind_gates_are_close_to_certified_moments() {
        for (records, rate, sigma) in [(1, 0.01, 1.0), (4, 0.01, 0.6), (16, 0.05, 4.0)] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            let whole = StepLoss::mixture(&law, sigma, Direction::Remove).unwrap().unwrap();
            for width in [0.5, 0.02] {
                let separation = whole.separation(1.0, width).unwrap();
                let (cut, _) = whole.truncated(-60.0, 1.0);
                for mut part in [
                    whole.near_part(separation, 8.0).unwrap(),
                    cut.far_part(separation).unwrap(),
                ] {
                    for c in [0.1, 0.5, 2.0] {
                        let (found, certified) = (part.estimated_moments(c, -40.0), part.moments(c, -40.0));
                        let named = format!("{records} {sigma} {width} {c}: {found:?} {certified:?}");
                        assert!(found.log_moment.error.is_infinite(), "{named}");
                        let off = found.log_moment.value - certified.log_moment.value;
                        assert!(off.abs() < 1e-6, "{named}");
                        let off = found.mean - certified.mean;
                        assert!(off.abs() < 1e-6 * certified.variance.sqrt(), "{named}");
                    }
                }
            }
        }
    }

    /// Tilts below 0 and losses that are not cut off are left to the certified search.
    #[test]
    fn what_fixed_nodes_do_not_serve_has_certified_moments() {
        let law = GroupLaw::binomial(2, 0.1).unwrap();
        let mut loss = StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap();
        assert!(loss.estimated_moments(1.0, -30.0).log_moment.error < 1e-10);
        let (mut loss, _) = loss.truncated(-40.0, 1.0);
        assert!(loss.estimated_moments(-0.5, -30.0).log_moment.error < 1e-10);
        assert!(loss.estimated_moments(0.5, -30.0).log_moment.error.is_infinite());
    }
}
