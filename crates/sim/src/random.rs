//! The only randomness of a simulation: a generator with a seed.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// The second of two normal values that were drawn together.
    spare: Option<f64>,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed, spare: None }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most - least) + 1;
        least + ((u128::from(self.bits()) * width) >> 64) as u64
    }

    /// From the normal distribution (Box and Muller: A note on the generation of random normal
    /// deviates, 1958).
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let standard = self.spare.take().unwrap_or_else(|| {
            // Above 0, whose logarithm is not a number.
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            let angle = std::f64::consts::TAU * self.unit();
            self.spare = Some(radius * angle.sin());
            radius * angle.cos()
        });
        mean + deviation * standard
    }

    /// The same, drawn anew until it is at least `least`, which must lie near the mean or below.
    pub fn normal_at_least(&mut self, mean: f64, deviation: f64, least: f64) -> f64 {
        let drawn = (0..1_000).map(|_| self.normal(mean, deviation)).find(|value| *value >= least);
        drawn.unwrap_or(least)
    }

    /// So many different numbers below `among`, in no order.
    pub fn some(&mut self, count: usize, among: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..among).collect();
        for at in 0..count.min(among) {
            let other = self.between(at as u64, among as u64 - 1) as usize;
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_another_gives_another() {
        let draw = |seed| (0..4).map(|_| 0).scan(Random::new(seed), |r, _| Some(r.bits()));
        assert!(draw(1).eq(draw(1)));
        assert!(!draw(1).eq(draw(2)));
    }

    #[test]
    fn normal_values_have_the_mean_and_the_deviation() {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..20_000).map(|_| random.normal(10.0, 4.0)).collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        let deviation = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        assert!((deviation.sqrt() - 4.0).abs() < 0.1, "{deviation}");
        assert!((0..1_000).all(|_| random.normal_at_least(1.0, 0.4, 0.1) >= 0.1));
    }

    #[test]
    fn some_are_different_and_in_range() {
        let mut random = Random::new(3);
        for count in [0, 1, 5, 10, 12] {
            let mut some = random.some(count, 10);
            assert_eq!(some.len(), count.min(10));
            some.sort_unstable();
            some.dedup();
            assert_eq!(some.len(), count.min(10));
            assert!(some.iter().all(|&at| at < 10));
        }
        assert!((0..100).all(|_| (3..=5).contains(&random.between(3, 5))));
    }
}
