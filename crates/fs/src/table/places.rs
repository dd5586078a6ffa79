//! Where a kernel may have a directory, which other mounts move.

use std::sync::{MutexGuard, PoisonError};

use tidefs_model::Ino;
use tidefs_store::Store;

use super::Node;
use crate::entry::Place;

/// In which the kernel may have a directory, of those that it was told.
const PLACES_MAX: usize = 4;

/// Where the kernel may have a directory.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Place>);

impl Places {
    /// `true`: it may be elsewhere, too.
    fn add(&mut self, place: &Place) -> bool {
        self.0.retain(|other| other != place);
        if self.0.len() == PLACES_MAX {
            self.0.remove(0);
        }
        self.0.push(place.clone());
        self.0.len() > 1
    }
}

impl<S: Store> Node<S> {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel has it there, and nowhere else.
    pub(crate) fn is_only_at(&self, place: &Place) {
        self.places().0 = vec![place.clone()];
    }

    /// The kernel was told of it there. `true`: it may have it elsewhere.
    pub(crate) fn may_be_at(&self, place: &Place) -> bool {
        let parent = place.shard.directory;
        let mut places = self.places();
        // What was handed over has a parent and no name.
        let was_elsewhere = places.0.is_empty() && ![self.ino, parent].contains(&self.parent());
        let is_elsewhere = places.add(place);
        self.set_parent(parent);
        was_elsewhere || is_elsewhere
    }

    pub(crate) fn is_surely_at(&self, place: &Place) -> bool {
        self.places.get().is_some() && self.places().0[..] == std::slice::from_ref(place)[..]
    }

    /// The only directory in which the kernel can have it.
    pub(crate) fn surely_lies_in(&self) -> Option<Ino> {
        self.places.get()?;
        match &self.places().0[..] {
            [place] => Some(place.shard.directory),
            _ => None,
        }
    }
}
