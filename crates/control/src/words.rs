//! Numbers of things, as people say them.

/// `1 node`, `2 nodes`.
pub fn count_of_nodes(count: u16) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
