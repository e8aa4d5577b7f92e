//! Lists that are short nearly always, on the stack: a submission allocates nothing.

/// Elements on the stack: a submission is what every one starts with, and packets, which are cut where they are long.
const FEW: usize = 4;

/// Runs something with a list of items.
pub fn with<T: Default, R>(
    items: impl ExactSizeIterator<Item = T>,
    run: impl FnOnce(&mut [T]) -> R,
) -> R {
    let count = items.len();
    if count > FEW {
        return run(&mut items.collect::<Vec<_>>());
    }
    let mut few: [T; FEW] = std::array::from_fn(|_| T::default());
    for (to, item) in few.iter_mut().zip(items) {
        *to = item;
    }
    run(few.get_mut(..count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_are_whole() {
        for count in [0, 1, FEW, FEW + 1, 100] {
            let found = with(0..count, |all| all.to_vec());
            assert_eq!(found, (0..count).collect::<Vec<_>>());
        }
    }
}
