//! The percentile spectrum in HdrHistogram's text format, as wrk2 prints it. HdrHistogram's plotter
//! reads it. Values are in milliseconds.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

/// Steps between a percentile and the one half as far from 100 %, as in wrk2 and the plotter.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Writes the spectrum of `times`, which are in microseconds.
#[must_use]
pub fn render(times: &Histogram<u64>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail; this holds for the whole file.
    let _ = writeln!(
        text,
        "{:>12} {:>12} {:>12} {:>12}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in times.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let value_ms = step.value_iterated_to() as f64 / 1e3;
        let quantile = step.quantile_iterated_to();
        let inverse = 1.0 / (1.0 - quantile);
        let _ = writeln!(text, "{value_ms:>12.3} {quantile:>12.6} {total:>12} {inverse:>12.2}");
    }
    footer(&mut text, times);
    text
}

fn footer(text: &mut String, times: &Histogram<u64>) {
    let (mean, deviation) = (times.mean() / 1e3, times.stdev() / 1e3);
    let (max, count) = (times.max() as f64 / 1e3, times.len());
    // The format's sub-buckets: twice the resolution, rounded up to a power of two.
    let sub_buckets = (2 * 10_u64.pow(u32::from(times.sigfig()))).next_power_of_two();
    let _ = write!(
        text,
        "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]\n\
         #[Max     = {max:>12.3}, Total count    = {count:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {sub_buckets:>12}]\n",
        times.buckets()
    );
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::measures::histogram;

    #[test]
    fn as_the_library_in_c_prints_it() {
        // The output of hdr_percentiles_print of HdrHistogram_c for 2 once and 4 ten times; here
        // the unit is a thousandth, so the values are a thousand times as large.
        let mut times = histogram();
        times.record(2_000).unwrap();
        times.record_n(4_000, 10).unwrap();
        let expected = "       Value   Percentile   TotalCount 1/(1-Percentile)

       2.000     0.000000            1         1.00
       4.001     0.100000           11         1.11
       4.001     1.000000           11          inf
#[Mean    =        3.819, StdDeviation   =        0.575]
#[Max     =        4.001, Total count    =           11]
#[Buckets =           22, SubBuckets     =         2048]
";
        assert_eq!(render(&times), expected);
    }

    #[test]
    fn golden() {
        sample::check_golden("spectrum.txt", &render(&sample::run().measures.times.corrected));
        sample::check_golden("spectrum_empty.txt", &render(&histogram()));
    }
}
