//! The five numbers of a box plot.

use serde::Serialize;

/// Least, quartiles and most of some values. Between two values it is interpolated linearly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quartiles {
    pub min: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub max: f64,
}

impl Quartiles {
    /// All 0 for no values.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Quartiles {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let Some(last) = values.len().checked_sub(1) else { return Quartiles::default() };
        let at = |part: f64| {
            let place = part * last as f64;
            let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        Quartiles { min: at(0.0), p25: at(0.25), p50: at(0.5), p75: at(0.75), max: at(1.0) }
    }

    pub fn map(self, change: impl Fn(f64) -> f64) -> Quartiles {
        let Quartiles { min, p25, p50, p75, max } = self;
        let [min, p25, p50, p75, max] = [min, p25, p50, p75, max].map(change);
        Quartiles { min, p25, p50, p75, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let of = |values: &[f64]| Quartiles::new(values.iter().copied());
        let five = Quartiles { min: 1.0, p25: 2.0, p50: 3.0, p75: 4.0, max: 5.0 };
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), five);
        assert_eq!(of(&[1.0, 2.0]).p25, 1.25);
        assert_eq!(of(&[7.0]).max, 7.0);
        assert_eq!(of(&[]), Quartiles::default());
        assert_eq!(five.map(|value| 2.0 * value).p75, 8.0);
    }
}
