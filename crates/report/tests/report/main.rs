//! Whole reports, as they lie in the folder.

mod facts;
mod figures;
mod files;
mod markup;
