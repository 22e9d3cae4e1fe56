//! The function of C that raises to a power.
//!
//! The scheduler of Tokio calls it, and nothing else in the server needs the C library's
//! mathematics, which would be loaded at each start for this one function: 0.3 MiB of memory.

/// `base` to the power of `exponent`, in place of the C library's `pow` in every program that
/// contains this crate.
// SAFETY: the name, the arguments and the result are those of C's function (ISO C 7.12.7.4).
#[cfg_attr(not(test), unsafe(no_mangle))] // a test of this crate contains it twice
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_standard_library() {
        for (base, exponent) in [(2.0, 10.0), (9.0, 0.5), (0.5, -1.0), (0.9, 61.0), (-2.0, 3.0)] {
            let expected = f64::powf(base, exponent);
            let found = pow(base, exponent);
            assert!((found - expected).abs() <= expected.abs() * 1e-15, "{found} {expected}");
        }
    }
}
