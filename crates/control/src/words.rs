//! Numbers of things, as people say them.

/// `1 node`, `2 nodes`.
pub fn count_of_nodes(count: u16) -> String {
    count_of(usize::from(count), "node")
}

/// `1 step`, `2 steps`.
pub fn count_of_steps(count: usize) -> String {
    count_of(count, "step")
}

/// `1 partition`, `2 partitions`.
pub fn count_of_partitions(count: u32) -> String {
    count_of(count as usize, "partition")
}

fn count_of(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
