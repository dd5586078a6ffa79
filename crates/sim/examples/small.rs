//! Small cases beside the exact optimum, more of them than the tests have time for:
//! `cargo run --release -p tidefs-sim --example small [SEED [CASES]]`.

use tidefs_sim::rescaling::{Planner, SmallCase, compare_with_exact};

fn main() {
    let number = |at: usize, usual| {
        let given = std::env::args().nth(at);
        given.map_or(usual, |text| text.parse().expect("a number"))
    };
    let (seed, count) = (number(1, 1), number(2, 100) as usize);
    for (kind, grows) in [("growing", true), ("shrinking", false)] {
        let (cases, impossible) = compare_with_exact(Planner::Tidefs, grows, count, seed);
        let (near, far): (Vec<&SmallCase>, Vec<&SmallCase>) =
            cases.iter().partition(|case| case.is_within(0.1));
        println!("{kind}: {} of {count} within a tenth, {impossible} impossible", near.len());
        far.iter().for_each(|case| println!("  {case:?}"));
    }
}
