//! Values of ψ_n at equally spaced u = log s, each computed once.

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::kernel::{Node, Ray};

/// ψ_n(e^{ih}) for a range of i that grows on demand.
#[derive(Debug)]
pub(crate) struct Table {
    order: usize,
    pub(crate) spacing: f64,
    ray: Ray,
    /// The largest u that the rule of the ray is made for.
    largest: f64,
    first: i64,
    nodes: Vec<Node>,
    /// Nodes of quadrature rules so far.
    pub(crate) work: u64,
}

impl Table {
    pub(crate) fn new(bins: &Bins, order: usize, spacing: f64) -> Self {
        let largest = bins.total.ln() + 2.0;
        Self {
            order,
            spacing,
            ray: Ray::new(bins, order, 0.0, largest),
            largest,
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
        let end = self.first + self.nodes.len() as i64;
        if from < self.first {
            let mut below = self.compute(bins, from, self.first);
            below.append(&mut self.nodes);
            self.nodes = below;
            self.first = from;
        }
        if to >= end {
            let mut above = self.compute(bins, end, to + 1);
            self.nodes.append(&mut above);
        }
        let start = (from - self.first) as usize;
        &self.nodes[start..=start + (to - from) as usize]
    }

    fn compute(&mut self, bins: &Bins, from: i64, to: i64) -> Vec<Node> {
        let highest = to as f64 * self.spacing;
        if highest > self.largest {
            self.largest = highest + 2.0;
            self.ray = Ray::new(bins, self.order, 0.0, self.largest);
        }
        self.work += (to - from).max(0) as u64 * self.ray.size() as u64;
        (from..to).map(|i| self.ray.at(i as f64 * self.spacing)).collect()
    }
}
