//! Seals that were lost with a node are no holes.

use std::sync::Arc;

use tidefs_model::{ByteSize, Granted};
use tidefs_store::{Batch, Store, StoreError};

use crate::support::{BLOCK, LOSSES, STRIPE, client, heap, noise, read, stripe, write};

fn is_lost<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Lost { .. }))
}

#[test]
fn a_stripe_whose_seals_may_be_lost_answers_that_and_can_be_written_anew() {
    for alone in [true, false] {
        let store = Arc::new(heap(ByteSize::mib(64)));
        let first = client(&store, 1, false);
        write(&first, stripe(0), 0, &noise(1, BLOCK)).unwrap();
        write(&first, stripe(1), 0, &noise(2, 100)).unwrap();
        // The shard of the seals comes back empty; that was said before.
        let granted = Granted { inos: stripe(0).ino.0 + 1, serials: 0 };
        let below = Batch::new().put(LOSSES.1, granted.encode());
        assert!(store.batch(LOSSES.0, &below).unwrap().applied());
        let seals: Vec<_> = store
            .keys(&Default::default())
            .into_iter()
            .chain((1..128).map(|at| {
                store.keys(&tidefs_store::Cursor(u16::to_be_bytes(at).to_vec())).unwrap()
            }))
            .flat_map(|page| page.keys)
            .filter_map(|key| match key {
                tidefs_store::Key::Shard(shard) if shard.directory == stripe(0).ino => Some(shard),
                _ => None,
            })
            .collect();
        assert_eq!(seals.len(), 1);
        store.delete_shards(&seals).unwrap();

        let second = client(&store, 2, alone);
        for (at, length) in [(0, 10), (0, STRIPE), (STRIPE - 1, 1)] {
            assert!(is_lost(read(&second, stripe(0), at, length)), "{at}, {length}");
        }
        assert_eq!(second.lengths(&[stripe(0)]).unwrap(), [STRIPE as u32]);
        assert!(is_lost(write(&second, stripe(0), 50, b"behind a gap")));
        write(&second, stripe(0), 0, b"anew").unwrap();
        assert_eq!(read(&second, stripe(0), 0, 4).unwrap(), b"anew");
        assert!(is_lost(read(&second, stripe(0), BLOCK, 1)), "the rest is still lost");
        second.trim(&[(stripe(0), 2)]).unwrap();
        assert_eq!(read(&second, stripe(0), 0, 2).unwrap(), b"an");
        // Later inodes have lost nothing.
        let later = tidefs_model::StripeKey { ino: tidefs_model::Ino(9_999), index: 0 };
        assert_eq!(read(&second, later, 0, 10).unwrap(), [0; 10]);
    }
}
