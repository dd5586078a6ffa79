//! Which node one more partition makes the spread most even on: asked for every partition of every
//! node, so it is kept small and in blocks.

use super::spread::{Gap, Goal, NUMBER_WEIGHT};

/// So many nodes are looked at together, for the processor's sake.
const BLOCK: usize = 8;

/// By how much the unevenness falls when a node gets one more partition. The unevenness is a sum of
/// (gap / part)^2 * part over nodes, so a partition of size *s* lowers it by *s (a - s c) + b*; what
/// does not depend on the size is kept, since every node is asked for every partition.
pub(super) struct Gains {
    /// Nodes that may hold something, in their order.
    nodes: Vec<u16>,
    blocks: Vec<Block>,
    scale: f64,
}

/// *a*, *b* and *c* of successive nodes, and by how much *b* falls with a partition; what is no node gains
/// nothing, ever.
struct Block {
    a: [f64; BLOCK],
    b: [f64; BLOCK],
    c: [f64; BLOCK],
    fall: [f64; BLOCK],
}

impl Block {
    const EMPTY: Block = Block {
        a: [0.0; BLOCK],
        b: [f64::NEG_INFINITY; BLOCK],
        c: [0.0; BLOCK],
        fall: [0.0; BLOCK],
    };

    fn gains(&self, size: f64) -> [f64; BLOCK] {
        std::array::from_fn(|at| size * (self.a[at] - size * self.c[at]) + self.b[at])
    }
}

impl Gains {
    pub fn new(gaps: &[Gap], goals: &[Goal], scale: f64, items: usize) -> Gains {
        let one = 1.0 / items as f64;
        let (mut nodes, mut blocks) = (Vec::new(), Vec::new());
        for (node, (gap, goal)) in gaps.iter().zip(goals).enumerate() {
            if goal.part > 0.0 {
                let at = nodes.len() % BLOCK;
                if at == 0 {
                    blocks.push(Block::EMPTY);
                }
                let block = blocks.last_mut().expect("it was added");
                block.a[at] = 2.0 * gap.bytes / scale / goal.part;
                block.b[at] =
                    NUMBER_WEIGHT * one * (2.0 * gap.number as f64 * one - one) / goal.number_part;
                block.c[at] = 1.0 / goal.part;
                block.fall[at] = 2.0 * NUMBER_WEIGHT * one * one / goal.number_part;
                nodes.push(node as u16);
            }
        }
        Gains { nodes, blocks, scale }
    }

    /// The first node for which one more partition of this size lowers the unevenness most; it then
    /// lacks that partition less.
    pub fn place(&mut self, bytes: u64) -> u16 {
        let size = bytes as f64 / self.scale;
        let larger = |a: f64, b: f64| if a > b { a } else { b };
        let (mut best, mut most) = (0, f64::NEG_INFINITY);
        for (at, block) in self.blocks.iter().enumerate() {
            let here = block.gains(size).into_iter().fold(f64::NEG_INFINITY, larger);
            if here > most {
                (best, most) = (at, here);
            }
        }
        let block = self.blocks.get_mut(best).expect("a node that may hold the range");
        let at = block.gains(size).iter().position(|&gain| gain == most).unwrap_or(0);
        block.a[at] -= 2.0 * size * block.c[at];
        block.b[at] -= block.fall[at];
        self.nodes[best * BLOCK + at]
    }
}
