//! Real mounts, used by real system calls.
//!
//! A claim is a function over a directory; the list below runs each of them on a mount over every
//! store. What only the session itself can show (joining, ending, dying) stands in `session`,
//! `joined` and `ordinary_user`.

mod appending;
mod attributes;
mod budget;
mod files;
mod full;
mod handed_over;
mod joined;
mod listing;
mod locks;
mod memory;
mod names;
mod ordinary_user;
mod rings;
mod session;
mod silent;
mod space;
mod support;

macro_rules! claims {
    ($($family:ident: $($claim:ident),+;)+) => {
        mod in_heap {
            $(mod $family {
                $(#[test]
                fn $claim() {
                    $crate::support::hold(
                        $crate::support::in_heap,
                        concat!(stringify!($family), "::", stringify!($claim)),
                    );
                })+
            })+
        }

        mod by_rings {
            $(mod $family {
                $(#[test]
                fn $claim() {
                    $crate::support::hold(
                        $crate::support::by_rings,
                        concat!(stringify!($family), "::", stringify!($claim)),
                    );
                })+
            })+
        }

        mod while_handed_over {
            $(mod $family {
                $(#[test]
                fn $claim() {
                    let claim = concat!(stringify!($family), "::", stringify!($claim));
                    $crate::handed_over::hold(claim);
                })+
            })+
        }

        mod passed_through {
            $(mod $family {
                $(#[test]
                fn $claim() {
                    $crate::support::hold(
                        $crate::support::passed_through,
                        concat!(stringify!($family), "::", stringify!($claim)),
                    );
                })+
            })+
        }

        fn claim_named(name: &str) -> Option<fn(&std::path::Path)> {
            $($(if name == concat!(stringify!($family), "::", stringify!($claim)) {
                return Some($family::$claim);
            })+)+
            None
        }
    };
}

claims! {
    files:
        what_is_written_is_read_back_around_stripe_borders,
        a_file_is_reread_while_it_is_written,
        a_second_descriptor_sees_what_was_written,
        an_exclusive_create_has_one_winner,
        truncation_cuts_and_extends_with_zeros,
        opening_with_truncation_empties_a_file,
        appends_of_many_writers_are_all_kept,
        a_file_without_a_name_lives_while_it_is_open,
        a_file_without_a_name_is_opened_through_a_descriptor_that_opened_nothing,
        ranges_are_copied_inside_the_file_system,
        a_descriptor_serves_only_what_it_was_opened_for,
        direct_and_synchronous_writes_are_read_back;
    names:
        a_rename_replaces_exchanges_or_refuses,
        a_directory_cannot_move_into_itself,
        only_an_empty_directory_is_removed_or_replaced,
        a_directory_that_was_removed_lives_while_it_is_open,
        hard_links_share_one_file,
        symbolic_links_lead_where_they_say,
        names_of_255_bytes_fit_and_longer_ones_do_not,
        names_are_any_bytes,
        a_missing_name_appears_when_it_is_made,
        a_fifo_and_a_socket_connect_programs;
    attributes:
        permissions_and_owners_change,
        a_new_owner_ends_set_user_id,
        who_changes_bytes_without_being_root_ends_set_user_id,
        who_changes_bytes_or_owner_ends_capabilities,
        times_are_kept_to_the_nanosecond,
        times_before_1970_are_kept_and_far_ones_become_the_nearest,
        a_change_shows_in_the_times,
        an_allocation_that_grows_a_file_shows_in_the_times,
        extended_attributes_are_kept,
        extended_attributes_have_names_of_known_kinds,
        access_control_lists_are_refused,
        totals_grow_with_what_is_written;
    space:
        holes_read_as_zeros_and_are_found,
        space_is_allocated_punched_and_zeroed,
        a_file_takes_the_space_that_was_written,
        a_copy_of_a_sparse_file_is_sparse,
        a_file_has_a_largest_size;
    memory:
        a_shared_map_and_the_file_are_the_same,
        a_map_outlives_its_descriptor,
        a_map_outlives_its_name,
        a_map_of_a_descriptor_that_appends_stays_in_place,
        readers_and_maps_see_what_a_descriptor_that_only_writes_wrote,
        a_map_that_is_filled_while_others_write_is_right_afterwards,
        a_time_that_is_set_covers_what_was_stored_before_and_nothing_later,
        what_is_stored_behind_the_end_is_no_part_of_the_file_when_it_grows;
    locks:
        a_flock_keeps_others_out,
        a_record_lock_keeps_other_processes_out,
        who_asks_for_a_lock_is_told_who_has_it,
        who_asks_for_a_lock_is_told_of_the_first_one_in_the_way,
        what_a_descriptor_that_only_reads_has_locked_is_free_when_it_is_closed,
        who_waits_for_a_lock_gets_it_when_it_is_given_back;
    listing:
        ten_thousand_entries_are_each_listed_once,
        a_listing_goes_on_while_its_entries_are_removed,
        a_listing_starts_afresh_when_rewound,
        a_listing_names_the_directory_above;
}

#[test]
fn a_write_beyond_the_largest_size_is_refused() {
    if let Some(mut mounted) = support::in_heap() {
        space::a_write_beyond_the_largest_size_is_refused(mounted.path());
        mounted.session.unmount().expect("nothing uses the mount any more");
    }
}

#[test]
#[ignore = "support::carry_out starts it, with a claim to hold"]
fn a_program_of_its_own() {
    let (name, place) = support::told_claim().expect("a claim, and where it is to hold");
    claim_named(&name).expect("a claim on the list")(&place);
}
