//! Where a reconfiguration stands.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Recording,
    Starting,
    Recovering,
    Surveying,
    Moving,
    Removing,
    Erasing,
    Over,
}

impl Phase {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Recording => "writing the journal",
            Phase::Starting => "starting nodes",
            Phase::Recovering => "putting failed moves right",
            Phase::Surveying => "measuring partitions",
            Phase::Moving => "moving partitions",
            Phase::Removing => "removing nodes",
            Phase::Erasing => "closing the journal",
            Phase::Over => "over",
        }
    }
}
