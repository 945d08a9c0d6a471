//! Draws of a cell with given probabilities in constant time.

/// Bits of a random word that pick the cell: probabilities are multiples of 2^-28.
pub(crate) const CELL_BITS: u32 = 28;

/// An alias table of cells.
///
/// The high bits of a slot are a threshold: words whose bits there are below it take the slot's own cell, others the cell in
/// the low bits of the slot. The number of slots is a power of two.
#[derive(Debug)]
pub(crate) struct AliasTable(Vec<u32>);

impl AliasTable {
    /// The table for cells with probabilities `counts` in units of 2^-28, which sum to 1.
    pub(crate) fn new(counts: &[u32]) -> Self {
        let slot_bits = counts.len().next_power_of_two().trailing_zeros();
        Self(alias_slots(counts, slot_bits))
    }

    /// The cell that the low [`CELL_BITS`] bits of a word pick.
    #[inline(always)]
    pub(crate) fn cell_of(&self, word: u64) -> u32 {
        let low = word as u32 & ((1 << CELL_BITS) - 1);
        let mask = self.0.len() - 1;
        let own = low as usize & mask;
        let slot = self.0[own];
        let takes_own = low < slot & !(mask as u32);
        std::hint::select_unpredictable(takes_own, own as u32, slot & mask as u32)
    }
}

/// Probabilities in units of 2^-28, each at least one unit, in proportion to areas given by their logarithms.
pub(crate) fn proposal_counts(log_areas: &[f64]) -> Vec<u32> {
    let largest = log_areas.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let areas: Vec<f64> = log_areas.iter().map(|log_area| (log_area - largest).exp()).collect();
    let units = 1u32 << CELL_BITS;
    // Rounding up never gives a cell less than its area asks, which would raise the envelope of all cells.
    // One unit a cell is reserved for it, and the likeliest cell gets the surplus.
    let scale = f64::from(units - areas.len() as u32) / areas.iter().sum::<f64>();
    let mut counts: Vec<u32> = areas.iter().map(|area| ((area * scale).ceil() as u32).max(1)).collect();
    let surplus = units.saturating_sub(counts.iter().sum());
    if let Some(likeliest) = counts.iter_mut().max() {
        *likeliest += surplus;
    }
    counts
}

/// The slots of Vose's alias method in integers: `counts` sum to 2^28, and each of 2^`slot_bits` slots holds an equal part of it,
/// packed as `threshold << slot_bits | other`. A slot that belongs to one cell alone has threshold 0.
fn alias_slots(counts: &[u32], slot_bits: u32) -> Vec<u32> {
    let size = 1usize << slot_bits;
    let part = 1u32 << (CELL_BITS - slot_bits);
    let mut left: Vec<u32> = counts.to_vec();
    left.resize(size, 0);
    let mut slots: Vec<u32> = (0..size as u32).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..size).partition(|&i| left[i] < part);
    while let (Some(&giver), Some(taker)) = (rich.last(), poor.pop()) {
        slots[taker] = (left[taker] << slot_bits) | giver as u32;
        left[giver] -= part - left[taker];
        if left[giver] < part {
            rich.pop();
            poor.push(giver);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alias_slots_give_every_cell_its_probability() {
        let mut counts = vec![1u32, 5, 1 << 20, 77];
        counts.push((1 << CELL_BITS) - counts.iter().sum::<u32>());
        let slots = alias_slots(&counts, 3);
        let part = 1u32 << (CELL_BITS - 3);
        let mut got = [0u32; 8];
        for (i, slot) in slots.iter().enumerate() {
            got[i] += slot >> 3;
            got[(slot & 7) as usize] += part - (slot >> 3);
        }
        assert_eq!(got[..5], counts[..]);
        assert_eq!(got[5..], [0, 0, 0]);
    }

    #[test]
    fn proposals_are_no_less_than_areas_ask_but_for_the_reserve() {
        let log_areas: Vec<f64> = (0..1000).map(|i| -0.05 * f64::from(i)).collect();
        let counts = proposal_counts(&log_areas);
        assert_eq!(counts.iter().sum::<u32>(), 1 << CELL_BITS);
        let total: f64 = log_areas.iter().map(|log_area| log_area.exp()).sum();
        let reserve = 1.0 - 1000.0 / f64::from(1u32 << CELL_BITS);
        for (&count, log_area) in counts.iter().zip(&log_areas) {
            let wanted = log_area.exp() / total * f64::from(1u32 << CELL_BITS) * reserve;
            assert!(
                count >= 1 && f64::from(count) >= wanted * (1.0 - 1e-12),
                "{count} {wanted}"
            );
        }
    }
}
