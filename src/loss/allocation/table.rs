//! Values of ψ_n at equally spaced u = log s along a ray, each computed once.

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::kernel::{Node, Ray};
use crate::stopping::checkpoint;
use rustc_hash::FxHashMap;

/// Rules for s of different sizes are made for u in intervals of this length.
const RULE_LENGTH: f64 = 2.0;

/// ψ_n(e^{ih + iθ}) for a range of i that grows on demand. A value depends on its own i only, not on what was asked before.
#[derive(Debug)]
pub(crate) struct Table {
    order: usize,
    spacing: f64,
    angle: f64,
    /// Rules by the interval of u that they are made for; 0 serves all smaller u.
    rules: FxHashMap<u64, Ray>,
    first: i64,
    nodes: Vec<Node>,
    /// Nodes of quadrature rules so far.
    pub(crate) work: u64,
}

impl Table {
    pub(crate) fn new(order: usize, spacing: f64, angle: f64) -> Self {
        Self {
            order,
            spacing,
            angle,
            rules: FxHashMap::default(),
            first: 0,
            nodes: Vec::new(),
            work: 0,
        }
    }

    /// The values from i = `from` to `to`.
    pub(crate) fn values(&mut self, bins: &Bins, from: i64, to: i64) -> &[Node] {
        if self.nodes.is_empty() {
            self.first = from;
        }
        if from < self.first {
            let mut below: Vec<Node> = (from..self.first).map(|i| self.at(bins, i)).collect();
            below.append(&mut self.nodes);
            self.nodes = below;
            self.first = from;
        }
        let end = self.first + self.nodes.len() as i64;
        for i in end..=to {
            let node = self.at(bins, i);
            self.nodes.push(node);
        }
        let start = (from - self.first) as usize;
        let count = (to + 1 - from).max(0) as usize;
        self.nodes.get(start..start + count).unwrap_or_default()
    }

    /// The value at i, from the rule for its u. A request to stop unwinds from here, which leaves the values found so far.
    fn at(&mut self, bins: &Bins, i: i64) -> Node {
        checkpoint();
        let u = i as f64 * self.spacing;
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
