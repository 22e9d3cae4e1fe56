//! The regularised incomplete gamma function, of which the chi-square, Erlang and Weibull
//! distributions are made. Series below a + 1, continued fraction above (Abramowitz and Stegun
//! 6.5.29 and 6.5.31), each where it converges quickly.

/// The most steps of the series and of the continued fraction. Both need about the square root of
/// `a` steps near their border; this is enough for a = 10^9.
const STEPS_MAX: usize = 200_000;
/// The replacement of a divisor that came out as 0 (Lentz's method).
const TINY: f64 = 1e-300;

/// P(a, x): the integral of t^(a-1) e^-t from 0 to x, over gamma(a); `a` above 0.
pub fn regularised_gamma(a: f64, x: f64) -> f64 {
    match x {
        x if x <= 0.0 => 0.0,
        x if x < a + 1.0 => series(a, x),
        _ => 1.0 - continued_fraction(a, x),
    }
}

/// Q(a, x) = 1 - P(a, x), exact where it is small.
pub fn regularised_gamma_above(a: f64, x: f64) -> f64 {
    match x {
        x if x <= 0.0 => 1.0,
        x if x < a + 1.0 => 1.0 - series(a, x),
        _ => continued_fraction(a, x),
    }
}

/// Evaluates P(a, x) = x^a e^-x / gamma(a) * (1/a + x/(a(a+1)) + x^2/(a(a+1)(a+2)) + …).
fn series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    for step in 1..STEPS_MAX {
        term *= x / (a + step as f64);
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    sum * factor(a, x)
}

/// Evaluates Q(a, x) = x^a e^-x / gamma(a) * 1/(x+1-a- 1(1-a)/(x+3-a- 2(2-a)/(x+5-a- …))), from the
/// front.
fn continued_fraction(a: f64, x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    let mut divisor = x + 1.0 - a;
    let mut numerators = 1.0 / TINY;
    let mut denominators = 1.0 / divisor;
    let mut fraction = denominators;
    for step in 1..STEPS_MAX {
        let step = step as f64;
        let numerator = -step * (step - a);
        divisor += 2.0;
        denominators = 1.0 / away_from_zero(numerator * denominators + divisor);
        numerators = away_from_zero(divisor + numerator / numerators);
        let change = denominators * numerators;
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    fraction * factor(a, x)
}

fn away_from_zero(value: f64) -> f64 {
    if value.abs() < TINY { TINY } else { value }
}

/// x^a e^-x / gamma(a).
fn factor(a: f64, x: f64) -> f64 {
    libm::exp(a * libm::log(x) - x - libm::lgamma(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: f64, x: f64, expected: f64) {
        let got = regularised_gamma(a, x);
        assert!((got - expected).abs() < 1e-9, "P({a}, {x}) = {got}");
        let above = regularised_gamma_above(a, x);
        assert!((got + above - 1.0).abs() < 1e-12, "Q({a}, {x}) = {above}");
    }

    /// P(1, x) = 1 - e^-x; P(2, x) = 1 - (1 + x) e^-x; P(1/2, x) = erf(sqrt x).
    #[test]
    fn agrees_with_closed_forms() {
        for x in [0.01_f64, 0.5, 1.0, 1.9, 2.1, 3.0, 10.0, 40.0] {
            check(1.0, x, 1.0 - (-x).exp());
            check(2.0, x, 1.0 - (1.0 + x) * (-x).exp());
            check(0.5, x, libm::erf(x.sqrt()));
        }
    }

    #[test]
    fn the_ends() {
        check(3.0, 0.0, 0.0);
        check(3.0, -1.0, 0.0);
        check(3.0, f64::INFINITY, 1.0);
        let far = regularised_gamma_above(1.0, 100.0);
        assert!((far / (-100.0_f64).exp() - 1.0).abs() < 1e-9, "{far}");
    }

    /// The median of a gamma variable is close to a - 1/3 for large a.
    #[test]
    fn many_degrees_of_freedom() {
        for a in [1e3, 1e5, 1e7] {
            let at_median = regularised_gamma(a, a - 1.0 / 3.0);
            assert!((at_median - 0.5).abs() < 1e-5, "{a}: {at_median}");
        }
    }
}
