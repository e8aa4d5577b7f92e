//! Bounds that something can be beyond, from the command line: nothing is beyond NaN, and a check against it never fails.

/// A finite number of at least 0.
///
/// # Errors
/// Anything else.
pub fn bound(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok();
    let usable = parsed.filter(|x: &f64| x.is_finite() && *x >= 0.0);
    usable.ok_or_else(|| {
        format!("expected a finite number of at least 0, such as 0.001, found {text:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_one_that_something_exceeds() {
        assert_eq!((bound("0"), bound("1e-5")), (Ok(0.0), Ok(1e-5)));
        for wrong in [
            "nan", "NaN", "-1", "-0.5", "inf", "infinity", "-inf", "1e999", "much", "",
        ] {
            assert!(bound(wrong).is_err(), "{wrong}");
        }
    }
}
