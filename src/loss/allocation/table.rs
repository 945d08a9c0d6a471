//! Values of ψ_n at equally spaced u = log s along rays, each computed once.

use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::kernel::{MAX_ORDER, Node, Ray};
use crate::loss::allocation::places::Places;
use crate::loss::allocation::shifted::{self, LogTable, MAX_SHIFTED_ORDER, Order};
use crate::loss::allocation::spacings::{Lattice, Spacings};
use crate::stopping::checkpoint;
use rustc_hash::FxHashMap;

/// Rules for s of different sizes are made for u in intervals of this length.
const RULE_LENGTH: f64 = 2.0;

/// The tables of one law.
#[derive(Debug)]
pub(crate) struct Tables {
    /// By order, unit and angle.
    tables: FxHashMap<(usize, u64, u64), Table>,
    /// log L of each part, by unit and angle.
    logs: FxHashMap<(u64, u64), Vec<LogTable>>,
    pub(crate) spacings: Spacings,
}

/// ψ_n(e^{ih + iθ}) for a unit h and those i that were asked for. A value depends on its own i only, not on what was asked before.
#[derive(Debug)]
struct Table {
    order: usize,
    unit: f64,
    angle: f64,
    /// Rules by the interval of u that they are made for; 0 serves all smaller u. None where derivatives are shifts.
    rules: FxHashMap<u64, Ray>,
    nodes: Places<Node>,
    /// Nodes of quadrature rules so far.
    work: u64,
}

impl Tables {
    pub(crate) fn new(bins: &Bins) -> Self {
        Self {
            tables: FxHashMap::default(),
            logs: FxHashMap::default(),
            spacings: Spacings::new(bins),
        }
    }

    /// Nodes of quadrature rules so far.
    pub(crate) fn work(&self) -> u64 {
        let logs: u64 = self.logs.values().flatten().map(|table| table.work).sum();
        logs + self.tables.values().map(|table| table.work).sum::<u64>()
    }

    /// The largest order n.
    pub(crate) fn max_order(&self) -> usize {
        if self.spacings.has_shift() {
            MAX_SHIFTED_ORDER
        } else {
            MAX_ORDER
        }
    }

    /// ψ_n at e^{ih + iθ} for i from `from` to `to`, h one of [`Tables::spacings`].
    pub(crate) fn values(
        &mut self,
        bins: &Bins,
        order: usize,
        (spacing, angle): (f64, f64),
        (from, to): (i64, i64),
    ) -> Vec<Node> {
        let lattice = self.spacings.lattice(spacing);
        let has_shifts = lattice.is_some() || order == 0;
        let lattice = lattice.unwrap_or(Lattice::of(spacing));
        let key = (order, lattice.unit.to_bits(), angle.to_bits());
        let table = self
            .tables
            .entry(key)
            .or_insert_with(|| Table::new(order, lattice.unit, angle));
        let places = (from..=to).map(|i| i * lattice.stride);
        if !has_shifts {
            if order > MAX_ORDER {
                return places.map(|_| Node::UNKNOWN).collect();
            }
            return table.values(places, |table, i| table.at(bins, i));
        }
        let part = |part: &Part| LogTable::new(part.variance, bins.total, angle, lattice.unit);
        let logs = self
            .logs
            .entry((lattice.unit.to_bits(), angle.to_bits()))
            .or_insert_with(|| bins.parts.iter().map(part).collect());
        let order = Order {
            n: order,
            shift: lattice.shift,
        };
        table.values(places, |table, place| {
            checkpoint();
            table.work += 1 + order.n as u64;
            shifted::node(bins, logs, order, place)
        })
    }
}

impl Table {
    fn new(order: usize, unit: f64, angle: f64) -> Self {
        Self {
            order,
            unit,
            angle,
            rules: FxHashMap::default(),
            nodes: Places::new(),
            work: 0,
        }
    }

    /// The values at `places`, where `at` computes one.
    fn values(
        &mut self,
        places: impl Iterator<Item = i64>,
        mut at: impl FnMut(&mut Self, i64) -> Node,
    ) -> Vec<Node> {
        let mut value = |place| {
            if let Some(known) = self.nodes.get(place) {
                return known;
            }
            let found = at(self, place);
            self.nodes.set(place, found);
            found
        };
        places.map(&mut value).collect()
    }

    /// The value at i, from the rule for its u. A request to stop unwinds from here, which leaves the values found so far.
    fn at(&mut self, bins: &Bins, i: i64) -> Node {
        checkpoint();
        let u = i as f64 * self.unit;
        let base = bins.total.ln() + RULE_LENGTH;
        let rule = ((u - base) / RULE_LENGTH).ceil().max(0.0) as u64;
        let (order, angle) = (self.order, self.angle);
        let ray = self
            .rules
            .entry(rule)
            .or_insert_with(|| Ray::new(bins, order, angle, base + rule as f64 * RULE_LENGTH));
        self.work += ray.size() as u64;
        ray.at(u)
    }
}
