//! Requests that may have to wait for room on a full store.

use fuser::{Errno, Request};
use tidefs_fs::{Error, Fs};
use tidefs_store::Store;

use super::{Adapter, carry_out};
use crate::errno;
use crate::waiting_room::Place;

impl<S: Store> Adapter<S> {
    /// Carries out a request, here or where others wait. `again`: it may be begun anew, so it need not
    /// stay here when it turns out that it has to wait. Returns what came of it, if it was answered here.
    pub(super) fn run_or_wait<T: Copy>(
        &self,
        request: &Request,
        again: bool,
        name: &'static str,
        bytes: &[u8],
        work: impl Fn(&Fs<S>, &[u8]) -> Result<T, Error> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) -> Option<T> {
        let here = || self.run_with_bytes(request, bytes.len(), name, |fs| work(fs, bytes));
        let (done, place) = match self.waiting_room.join() {
            Some(place) => (Err(Errno::EINTR), Some(place)),
            None if again => self.waiting_room.beside(here),
            None => (here(), None),
        };
        match (done, place) {
            (Err(Errno::EINTR), Some(place)) => {
                self.hand_over(place, request, name, bytes, work, answer);
                None
            }
            (done, _) => {
                let value = done.ok();
                answer(done);
                value
            }
        }
    }

    /// Carries out and answers a request where others wait.
    pub(super) fn hand_over<T>(
        &self,
        place: Place,
        request: &Request,
        name: &'static str,
        bytes: &[u8],
        work: impl FnOnce(&Fs<S>, &[u8]) -> Result<T, Error> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let (fs, kernel) = (self.fs.clone(), self.kernel.clone());
        let (asker, bytes) = (request.pid(), bytes.to_vec());
        place.wait(move || match kernel.begin() {
            Some(_under_way) => {
                answer(carry_out(&kernel, asker, name, || work(&fs, &bytes)));
            }
            None => answer(Err(errno::MOUNT_OVER)),
        });
    }
}
