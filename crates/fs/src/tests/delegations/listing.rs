//! All names of a directory, with the modes of what they stand for.

use tidefs_model::Ino;

use super::Mount;

impl Mount {
    pub(super) fn readdir_all(&self, directory: Ino) -> Vec<(Vec<u8>, u32)> {
        let handle = self.opendir(directory).expect("opened");
        let mut found = Vec::new();
        self.readdir_plus(handle, 2, &mut |entry, attr| {
            found.push((entry.name.clone(), attr.mode));
            true
        })
        .expect("listed");
        self.releasedir(handle).expect("closed");
        found
    }
}
