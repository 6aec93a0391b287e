//! The distributions that intervals and p-values need: normal, Student's t with any degrees of freedom, and
//! Wilson's interval of a share.

/// The standard normal at which 2.5 % lie above.
const Z: f64 = 1.959_963_984_540_054;
/// The one at which 5 % lie above.
pub(crate) const Z_ONE_SIDED: f64 = 1.644_853_626_951_472;

/// Chance that Student's t with `df` (above 0) degrees of freedom exceeds `t` (0 or more):
/// I(df / (df + t^2); df / 2, 1 / 2) / 2.
pub(crate) fn t_tail(t: f64, df: f64) -> f64 {
    let square = t * t;
    if !square.is_finite() {
        return 0.0;
    }
    let (a, b) = (df / 2.0, 0.5);
    // The fraction converges on the side of the mean (a + 1) / (a + b + 2); the other side is its mirror.
    let (x, y) = (df / (df + square), square / (df + square));
    let inside = if x < (a + 1.0) / (a + b + 2.0) { beta(x, y, a, b) } else { 1.0 - beta(y, x, b, a) };
    inside / 2.0
}

/// The t that 2.5 % of Student's distribution exceed: half the width of a 95 % interval in standard errors.
pub(crate) fn t_half_width(df: f64) -> f64 {
    t_above(df, 0.025, Z)
}

/// The t that 5 % exceed: how far a one-sided 95 % bound is, in standard errors.
pub(crate) fn t_one_sided(df: f64) -> f64 {
    t_above(df, 0.05, Z_ONE_SIDED)
}

/// The t that a share of Student's distribution exceeds; `z` is the normal's, which is less. By bisection, to 15 digits;
/// infinite where it is beyond 1e12.
fn t_above(df: f64, share: f64, z: f64) -> f64 {
    let (mut low, mut high) = (z, 2.0 * z);
    while t_tail(high, df) > share {
        (low, high) = (high, 2.0 * high);
        if high > 1e12 {
            return f64::INFINITY;
        }
    }
    for _ in 0..52 {
        let middle = (low + high) / 2.0;
        if t_tail(middle, df) > share { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function at `x` = 1 - `y`, by its continued fraction.
///
/// Source: Abramowitz and Stegun 26.5.8; evaluated after Lentz (Applied Optics 1976).
fn beta(x: f64, y: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let off_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / off_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in (1..10_000).map(f64::from) {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for step in [even, odd] {
            d = 1.0 / off_zero(1.0 + step * d);
            c = off_zero(1.0 + step / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= 1e-16 * fraction.abs() {
            break;
        }
    }
    let scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * y.ln();
    scale.exp() * fraction / a
}

/// Wilson's 95 % interval of a share of `n` (above 0) independent items, which need not be a whole number.
///
/// Source: Wilson, "Probable inference, the law of succession, and statistical inference" (JASA 1927).
pub(crate) fn wilson(share: f64, n: f64) -> (f64, f64) {
    let square = Z * Z / n;
    let centre = (share + square / 2.0) / (1.0 + square);
    let half = Z / (1.0 + square) * (share * (1.0 - share) / n + square / (4.0 * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

/// Two-sided p-value of "the true share is `x`", by inversion of Wilson's interval.
pub(crate) fn wilson_p(share: f64, n: f64, x: f64) -> f64 {
    let spread = x * (1.0 - x) / n;
    match share - x {
        off if off == 0.0 => 1.0,
        _ if spread <= 0.0 => 0.0,
        off => 2.0 * normal_cdf(-(off / spread.sqrt()).abs()),
    }
}

pub(crate) fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Inverse of the normal distribution: Wichura, algorithm AS 241 (PPND16, Applied Statistics 1988),
/// good to about 16 digits.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 8] = [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ];
    const B: [f64; 8] = [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_545e3,
    ];
    const C: [f64; 8] = [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ];
    const D: [f64; 8] = [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ];
    const E: [f64; 8] = [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ];
    const F: [f64; 8] = [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ];
    let ratio = |top: &[f64; 8], bottom: &[f64; 8], r: f64| {
        let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * r + c);
        polynomial(top) / polynomial(bottom)
    };
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(&A, &B, 0.180_625 - q * q);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt();
    let tail = if r <= 5.0 { ratio(&C, &D, r - 1.6) } else { ratio(&E, &F, r - 5.0) };
    tail.copysign(q)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not within {tolerance} of {b}");
    }

    /// Figures from scipy.special.ndtri and ndtr 1.17.1.
    #[test]
    fn the_normal_distribution_is_that_of_scipy() {
        for (p, z) in [
            (1e-10, -6.361_340_902_404_056),
            (0.001, -3.090_232_306_167_813),
            (0.024, -1.977_368_428_181_947),
            (0.3, -0.524_400_512_708_041),
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
        ] {
            close(normal_quantile(p), z, 1e-13);
        }
        for (z, p) in [
            (-6.0, 9.865_876_450_376_946e-10),
            (-1.5, 0.066_807_201_268_858_07),
            (0.3, 0.617_911_422_188_952_6),
            (2.5, 0.993_790_334_674_223_8),
        ] {
            close(normal_cdf(z), p, 1e-15);
        }
    }

    /// Figures from scipy.stats.t.ppf(0.975, df) and sf(t, df) 1.17.1.
    #[test]
    fn students_distribution_is_that_of_scipy() {
        for (df, t) in [
            (0.5, 164.557_673_480_488_18),
            (1.0, 12.706_204_736_174_694),
            (2.3, 3.807_163_208_232_131),
            (3.0, 3.182_446_305_283_708),
            (4.7, 2.620_726_075_353_17),
            (10.0, 2.228_138_851_986_274),
            (29.0, 2.045_229_642_132_703),
            (50.0, 2.008_559_112_100_761),
            (1_000.0, 1.962_339_080_826_408),
        ] {
            close(t_half_width(df), t, 1e-9 * t);
        }
        for (t, df, p) in [
            (0.5, 1.0, 0.352_416_382_349_566_74),
            (2.0, 3.5, 0.063_069_261_287_956_72),
            (3.0, 9.0, 0.007_478_181_955_207_111),
            (10.0, 4.2, 0.000_219_276_538_107_154_02),
            (40.0, 30.0, 6.863_022_597_203_209e-28),
            (1.96, 1e6, 0.024_998_033_792_634_926),
            (0.001, 2.0, 0.499_646_446_697_795_07),
            (0.0, 5.0, 0.5),
        ] {
            close(t_tail(t, df), p, 1e-9 * p);
        }
        assert_eq!(t_tail(f64::INFINITY, 3.0), 0.0);
        assert_eq!(t_half_width(1e-3), f64::INFINITY);
    }

    /// 0 of 3: 3.84 / (3 + 3.84).
    #[test]
    fn wilson_says_how_little_three_of_three_say() {
        let (lo, hi) = wilson(0.0, 3.0);
        assert_eq!(lo, 0.0);
        close(hi, 0.561_497, 1e-6);
        let (lo, hi) = wilson(1.0, 12.0);
        close(lo, 0.757_506, 1e-6);
        assert_eq!(hi, 1.0);
        let (lo, hi) = wilson(0.25, 40.0);
        close(lo, 0.141_871, 1e-6);
        close(hi, 0.401_940, 1e-6);
        // At the interval's end p is 0.05.
        close(wilson_p(0.25, 40.0, hi), 0.05, 1e-9);
        assert_eq!((wilson_p(1.0, 12.0, 1.0), wilson_p(1.0, 12.0, 0.0)), (1.0, 0.0));
    }
}
