//! Fewer rows for a picture, without losing what stands out in it.

/// What a picture shows of a row.
pub(crate) type Quantity<T> = fn(&T) -> f64;

/// At most `limit` of the rows, in order: of each stretch its ends, and its lowest and highest row
/// in each quantity. A limit below that of one stretch counts as that.
pub(crate) fn thin<'r, T>(rows: &[&'r T], quantities: &[Quantity<T>], limit: usize) -> Vec<&'r T> {
    if rows.len() <= limit {
        return rows.to_vec();
    }
    let kept_each = 2 + 2 * quantities.len();
    let stretches = (limit / kept_each).max(1);
    rows.chunks(rows.len().div_ceil(stretches))
        .flat_map(|stretch| kept(stretch, quantities).into_iter().map(|at| stretch[at]))
        .collect()
}

/// Indexes of the rows that stand out.
fn kept<T>(stretch: &[&T], quantities: &[Quantity<T>]) -> Vec<usize> {
    let mut kept = vec![0, stretch.len() - 1];
    for quantity in quantities {
        let by = |a: &usize, b: &usize| quantity(stretch[*a]).total_cmp(&quantity(stretch[*b]));
        kept.extend((0..stretch.len()).min_by(by));
        kept.extend((0..stretch.len()).max_by(by));
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Point(f64, f64);

    const QUANTITIES: [Quantity<Point>; 2] = [|point| point.0, |point| point.1];

    #[test]
    fn few_rows_stay_as_they_are() {
        let points = [Point(1.0, 2.0), Point(3.0, 4.0)];
        let rows: Vec<_> = points.iter().collect();
        assert_eq!(thin(&rows, &QUANTITIES, 2), rows);
        assert!(thin(&[], &QUANTITIES, 2_000).is_empty());
    }

    #[test]
    fn a_spike_of_one_row_survives_wherever_it_is() {
        for spike in [0, 1, 7_777, 49_999, 99_998, 99_999] {
            let mut points = vec![Point(5.0, 5.0); 100_000];
            points[spike] = Point(9.0, 1.0);
            points[99_999 - spike].1 = 7.0;
            let rows: Vec<_> = points.iter().collect();
            let thinned = thin(&rows, &QUANTITIES, 2_000);
            assert!(thinned.len() <= 2_000, "{} rows", thinned.len());
            assert!(thinned.contains(&&Point(9.0, 1.0)), "spike at {spike}");
            assert!(thinned.iter().any(|point| point.1 == 7.0), "rise at {spike}");
            assert!(std::ptr::eq(thinned[0], &points[0]), "the first row");
            assert!(std::ptr::eq(*thinned.last().expect("rows"), &points[99_999]), "the last");
        }
    }

    #[test]
    fn every_length_keeps_the_bound_and_the_order() {
        for length in 1..300 {
            let points: Vec<_> =
                (0..length).map(|at| Point(at as f64, (at * 7 % 13) as f64)).collect();
            let rows: Vec<_> = points.iter().collect();
            let thinned = thin(&rows, &QUANTITIES, 40);
            assert!(thinned.len() <= 40, "{length} rows became {}", thinned.len());
            assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0), "{length} rows");
        }
    }
}
