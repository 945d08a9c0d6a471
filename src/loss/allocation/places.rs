//! Values at whole numbers, in a run of memory that grows on demand.

/// Values at some of the whole numbers.
#[derive(Debug)]
pub(crate) struct Places<T> {
    first: i64,
    values: Vec<Option<T>>,
}

impl<T: Copy> Places<T> {
    /// Places that are added at once.
    const MORE: usize = 64;

    pub(crate) const fn new() -> Self {
        Self {
            first: 0,
            values: Vec::new(),
        }
    }

    /// The value at `i`, if it is known.
    pub(crate) fn get(&self, i: i64) -> Option<T> {
        let index = usize::try_from(i - self.first).ok()?;
        self.values.get(index).copied().flatten()
    }

    /// Keeps the value at `i`.
    pub(crate) fn set(&mut self, i: i64, value: T) {
        if self.values.is_empty() {
            self.first = i;
        }
        if i < self.first {
            let more = (self.first - i) as usize + Self::MORE;
            self.values.splice(0..0, std::iter::repeat_n(None, more));
            self.first -= more as i64;
        }
        let index = (i - self.first) as usize;
        if index >= self.values.len() {
            self.values.resize(index + Self::MORE, None);
        }
        self.values[index] = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_on_both_sides_of_the_first() {
        let mut places = Places::new();
        let all = [5, 6, -3, 200, -300, 4];
        for i in all {
            assert_eq!(places.get(i), None);
            places.set(i, 2 * i);
        }
        for i in -400..400 {
            assert_eq!(places.get(i), all.contains(&i).then_some(2 * i));
        }
    }
}
