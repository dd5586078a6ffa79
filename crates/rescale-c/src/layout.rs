//! The structures of the header, field by field.

use std::ffi::{c_char, c_double, c_int, c_void};

use tidefs_rescale::Inventory;

/// What is behind the handle of an inventory.
#[derive(Default)]
pub struct InventoryHandle {
    pub(crate) inventory: Inventory,
    /// Why the first of what could not be added was not; such an inventory is not used.
    pub(crate) failed: Option<String>,
}

/// Where a callback that fails says why.
#[derive(Default)]
pub struct Words(pub(crate) Option<String>);

pub const OK: c_int = 0;
pub const REFUSED: c_int = 1;
pub const UNFINISHED: c_int = 2;
pub const ARGUMENT: c_int = 3;
pub const INTERNAL: c_int = 4;

#[repr(C)]
pub struct CServer {
    pub name: *const c_char,
    pub class_name: *const c_char,
    pub weight: c_double,
    pub bandwidth: c_double,
    pub capacity_bytes: u64,
}

#[repr(C)]
pub struct CBucket {
    pub name: *const c_char,
    pub server: *const c_char,
    pub bytes: u64,
    pub load: c_double,
    pub class_name: *const c_char,
}

#[repr(C)]
pub struct CMove {
    pub bucket: *const c_char,
    pub from: *const c_char,
    pub to: *const c_char,
    pub bytes: u64,
}

#[repr(C)]
#[derive(Default)]
pub struct CMeasures {
    pub load_balance: c_double,
    pub data_balance: c_double,
    pub seconds: c_double,
    pub bytes_moved: u64,
    pub buckets_moved: u64,
}

#[repr(C)]
pub struct CProgress {
    pub moved: u64,
    pub bytes_moved: u64,
    pub to_move: u64,
    pub moving: u64,
    pub started: u64,
    pub stopped: u64,
    pub faults: u64,
}

#[repr(C)]
pub struct CChange {
    pub start: *const CServer,
    pub start_count: usize,
    pub stop: *const *const c_char,
    pub stop_count: usize,
}

#[repr(C)]
pub struct CSettings {
    pub strategy: *const c_char,
    pub moves_per_server: u32,
    pub calls_at_once: u32,
    pub attempts: u32,
    pub between_inventories: c_double,
    pub inventory_within: c_double,
    pub start_within: c_double,
    pub move_within: c_double,
    pub stop_within: c_double,
}

type OfServer = unsafe extern "C" fn(*mut c_void, *const c_char, *mut Words) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCallbacks {
    pub inventory:
        Option<unsafe extern "C" fn(*mut c_void, *mut InventoryHandle, *mut Words) -> c_int>,
    pub start: Option<OfServer>,
    pub move_bucket: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *const c_char,
            *const c_char,
            *const c_char,
            *mut Words,
        ) -> c_int,
    >,
    pub stop: Option<OfServer>,
    pub progress: Option<unsafe extern "C" fn(*mut c_void, *const CProgress)>,
    pub clock: Option<unsafe extern "C" fn(*mut c_void) -> c_double>,
}
