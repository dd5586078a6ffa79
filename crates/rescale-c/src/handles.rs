//! Inventories and plans behind opaque handles: made, filled, asked and freed.

use std::ffi::{CString, c_char, c_int};

use tidefs_rescale::{Bucket, Change, Inventory, Least, Measures, Plan, Server, Weights, plan};

use crate::layout::*;
use crate::words::{Stopped, c_text, text, text_needed, walled};

pub struct PlanHandle {
    plan: Plan,
    /// Bucket, from and to of each move.
    names: Vec<[CString; 3]>,
}

/// Zero is what is usual.
fn or(value: f64, usual: f64) -> f64 {
    if value == 0.0 { usual } else { value }
}

/// # Safety
/// The texts of `server` are null or end with a zero byte.
unsafe fn server_of(server: &CServer) -> Result<Server, Stopped> {
    // SAFETY: the caller's promise.
    let (name, class) = unsafe {
        (
            text_needed(server.name, "the name of a server")?,
            text(server.class_name, "the class of a server")?,
        )
    };
    let usual = Server::new(name);
    Ok(Server {
        class: class.unwrap_or_default(),
        weight: or(server.weight, usual.weight),
        bandwidth: or(server.bandwidth, usual.bandwidth),
        capacity_bytes: match server.capacity_bytes {
            0 => u64::MAX,
            bytes => bytes,
        },
        ..usual
    })
}

/// # Safety
/// `change` is null or as the header says.
pub(crate) unsafe fn change_of(change: *const CChange) -> Result<Change, Stopped> {
    // SAFETY: the caller's promise.
    let Some(change) = (unsafe { change.as_ref() }) else { return Ok(Change::default()) };
    if change.start.is_null() && change.start_count > 0
        || change.stop.is_null() && change.stop_count > 0
    {
        return Err(Stopped::argument("a list of servers is NULL and not empty"));
    }
    let mut wanted = Change::default();
    for at in 0..change.start_count {
        // SAFETY: the list is as long as its count says.
        wanted.start.push(unsafe { server_of(&*change.start.add(at))? });
    }
    for at in 0..change.stop_count {
        // SAFETY: as above.
        wanted.stop.push(unsafe { text_needed(*change.stop.add(at), "a server to stop")? });
    }
    Ok(wanted)
}

/// # Safety
/// `strategy` is null or ends with a zero byte.
pub(crate) unsafe fn weights_of(strategy: *const c_char) -> Result<Weights, Stopped> {
    // SAFETY: the caller's promise.
    match unsafe { text(strategy, "the strategy")? } {
        None => Ok(Weights::LDT),
        Some(words) => words.parse().map_err(|wrong| Stopped::argument(format!("{wrong}"))),
    }
}

pub(crate) fn measures_of(measures: &Measures) -> CMeasures {
    CMeasures {
        load_balance: measures.load_balance,
        data_balance: measures.data_balance,
        seconds: measures.seconds,
        bytes_moved: measures.bytes_moved,
        buckets_moved: measures.buckets_moved,
    }
}

/// Those of before, after and the least, by their number.
pub(crate) fn chosen(
    which: c_int,
    (before, after, least): (&Measures, &Measures, &Least),
) -> Option<CMeasures> {
    let (seconds, bytes_moved) = (least.seconds, least.bytes_moved);
    match which {
        0 => Some(measures_of(before)),
        1 => Some(measures_of(after)),
        2 => Some(CMeasures { seconds, bytes_moved, ..CMeasures::default() }),
        _ => None,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn tidefs_rescale_inventory_new() -> *mut InventoryHandle {
    Box::into_raw(Box::default())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_inventory_add_server(
    into: *mut InventoryHandle,
    server: *const CServer,
) -> c_int {
    let put = |into: &mut Inventory, server: &CServer| -> Result<(), Stopped> {
        // SAFETY: the caller's promise.
        into.servers.push(unsafe { server_of(server)? });
        Ok(())
    };
    // SAFETY: as above.
    unsafe { add(into, server, put) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_inventory_add_bucket(
    into: *mut InventoryHandle,
    bucket: *const CBucket,
) -> c_int {
    let put = |into: &mut Inventory, bucket: &CBucket| -> Result<(), Stopped> {
        // SAFETY: the caller's promise.
        let (name, server, class) = unsafe {
            (
                text_needed(bucket.name, "the name of a bucket")?,
                text_needed(bucket.server, "the server of a bucket")?,
                text(bucket.class_name, "the class of a bucket")?,
            )
        };
        into.buckets.push(Bucket { name, server, bytes: bucket.bytes, load: bucket.load, class });
        Ok(())
    };
    // SAFETY: as above.
    unsafe { add(into, bucket, put) }
}

/// Adds something to an inventory, which keeps why it could not be.
///
/// # Safety
/// `into` and `item` are null or as the header says.
unsafe fn add<T>(
    into: *mut InventoryHandle,
    item: *const T,
    put: impl FnOnce(&mut Inventory, &T) -> Result<(), Stopped>,
) -> c_int {
    let work = || {
        // SAFETY: the caller's promise.
        let (into, item) = unsafe { (into.as_mut(), item.as_ref()) };
        let into = into.ok_or_else(|| Stopped::argument("the inventory is NULL"))?;
        let item = item.ok_or_else(|| Stopped::argument("what is to be added is NULL"));
        let added = item.and_then(|item| put(&mut into.inventory, item));
        if let Err(stopped) = &added {
            into.failed.get_or_insert_with(|| stopped.why.clone());
        }
        added.map(|()| OK)
    };
    // SAFETY: no error is asked for.
    unsafe { walled(std::ptr::null_mut(), work) }
}

/// # Safety
/// `inventory` is null or was made by this library, and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_inventory_free(inventory: *mut InventoryHandle) {
    if !inventory.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(inventory) });
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_plan_make(
    inventory: *const InventoryHandle,
    change: *const CChange,
    strategy: *const c_char,
    made: *mut *mut PlanHandle,
    error: *mut *mut c_char,
) -> c_int {
    let work = || {
        if !made.is_null() {
            // SAFETY: the caller's promise.
            unsafe { *made = std::ptr::null_mut() };
        }
        // SAFETY: as above.
        let Some(inventory) = (unsafe { inventory.as_ref() }).filter(|_| !made.is_null()) else {
            return Err(Stopped::argument("the inventory or the place for the plan is NULL"));
        };
        if let Some(why) = &inventory.failed {
            return Err(Stopped::argument(why.clone()));
        }
        // SAFETY: as above.
        let (change, weights) = unsafe { (change_of(change)?, weights_of(strategy)?) };
        let plan = plan(&inventory.inventory, &change, weights)
            .map_err(|refused| Stopped { status: REFUSED, why: refused.to_string() })?;
        let names = plan.moves.iter().map(|it| [&it.bucket, &it.from, &it.to].map(|it| c_text(it)));
        let handle = PlanHandle { names: names.collect(), plan };
        // SAFETY: as above.
        unsafe { *made = Box::into_raw(Box::new(handle)) };
        Ok(OK)
    };
    // SAFETY: the caller's promise.
    unsafe { walled(error, work) }
}

/// # Safety
/// `plan` is null or was made by this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_plan_moves(plan: *const PlanHandle) -> usize {
    // SAFETY: the caller's promise.
    unsafe { plan.as_ref() }.map_or(0, |it| it.names.len())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_plan_move(
    plan: *const PlanHandle,
    at: usize,
    step: *mut CMove,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(plan), Some(step)) = (unsafe { (plan.as_ref(), step.as_mut()) }) else {
        return ARGUMENT;
    };
    let (Some(names), Some(planned)) = (plan.names.get(at), plan.plan.moves.get(at)) else {
        return ARGUMENT;
    };
    let [bucket, from, to] = names.each_ref().map(|name| name.as_ptr());
    *step = CMove { bucket, from, to, bytes: planned.bytes };
    OK
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_plan_measures(
    plan: *const PlanHandle,
    which: c_int,
    measures: *mut CMeasures,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(handle), Some(into)) = (unsafe { (plan.as_ref(), measures.as_mut()) }) else {
        return ARGUMENT;
    };
    let plan = &handle.plan;
    let Some(found) = chosen(which, (&plan.before, &plan.after, &plan.least)) else {
        return ARGUMENT;
    };
    *into = found;
    OK
}

/// # Safety
/// `plan` is null or was made by this library, and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidefs_rescale_plan_free(plan: *mut PlanHandle) {
    if !plan.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(plan) });
    }
}
