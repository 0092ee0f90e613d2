//! What tokens are called on a node: the resources that pods request, the sockets behind them, the devices that kubelet counts.
//!
//! ```
//! use trustplane_hsm_core::resource::{slug, token_resource, type_resource};
//!
//! assert_eq!(type_resource("PicoHSM"), "hsm.j5t.io/picohsm");
//! assert_eq!(token_resource("e6614c311b7e6f35"), "hsm.j5t.io/token-e6614c311b7e6f35");
//! assert_eq!(slug("DENK0104068"), "denk0104068");
//! // What cannot stay as it is gets a digest, so that no two serial numbers meet.
//! assert_ne!(slug("a b"), slug("a/b"));
//! ```

use crate::objects::{DIGEST, short_digest};

/// What resources of ours begin with.
pub const DOMAIN: &str = "hsm.j5t.io";
/// The most characters of a slug. A path of a Unix socket has 107 bytes, and some distributions spend half of them on kubelet's
/// directory; names of agents want to be short as well.
pub const LONGEST_SLUG: usize = 28;
/// What the resources of single tokens begin with, behind the domain.
const TOKEN: &str = "token-";
/// The most characters of a resource behind its domain.
const LONGEST_NAME: usize = 63;

/// A serial number as a part of names: lower case letters, digits and single dashes inside, as the original has it. Different
/// serial numbers have different slugs, unless they differ in case only.
pub fn slug(serial: &str) -> String {
    let plain = plain(serial);
    let fits = (1..=LONGEST_SLUG).contains(&plain.len());
    if plain == serial.to_ascii_lowercase() && fits && !ends_like_ours(&plain) {
        return plain;
    }
    let room = LONGEST_SLUG - DIGEST - 1;
    let kept = plain.get(..room).unwrap_or(&plain).trim_end_matches('-');
    let kept = if kept.is_empty() { "none" } else { kept };
    // In one case, as those without a digest are.
    format!("{kept}-{}", short_digest(&serial.to_ascii_lowercase()))
}

/// The resource of one token.
pub fn token_resource(serial: &str) -> String {
    format!("{DOMAIN}/{TOKEN}{}", slug(serial))
}

/// The resource of all tokens of a type, named as the original does: by the type in lower case.
pub fn type_resource(device_type: &str) -> String {
    let lower = plain(device_type);
    let named = match lower.as_str() {
        "" => "generic",
        lower => lower,
    };
    // A type must not pass for a token.
    let prefix = if named.starts_with(TOKEN) { "type-" } else { "" };
    let whole = format!("{prefix}{named}");
    let cut = whole.get(..LONGEST_NAME).unwrap_or(&whole);
    format!("{DOMAIN}/{}", cut.trim_end_matches('-'))
}

/// The socket of a resource, as a file name: `hsm.j5t.io_picohsm.sock`.
pub fn socket_name(resource: &str) -> String {
    format!("{}.sock", resource.replace('/', "_"))
}

/// A device as kubelet counts it: `<node>-<path>-<serial>`, as the original names it. It is the token at its place: one that
/// comes back at another place is another device, and nobody can mistake an allocation of the old place for one of the new.
pub fn device_id(node: &str, device_path: &str, serial: Option<&str>) -> String {
    let serial = serial.unwrap_or("none");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let whole = format!("{node}-{device_path}-{serial}");
    let id: String = whole.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    // Two places of one node look alike only if they hold what stands between the parts, or what was replaced.
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let clear = device_path.chars().all(|c| plain(c) || c == '/') && serial.chars().all(plain);
    if clear {
        id
    } else {
        format!("{id}-{}", short_digest(&format!("{device_path}\0{serial}")))
    }
}

/// A text as a part of the name of an environment variable that every shell takes.
pub fn variable_part(text: &str) -> String {
    let part = |c: char| match c.to_ascii_uppercase() {
        c @ ('A'..='Z' | '0'..='9') => c,
        _ => '_',
    };
    text.chars().map(part).collect()
}

/// Lower case letters, digits and single dashes inside.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            plain.push(c);
        } else if !plain.is_empty() && !plain.ends_with('-') {
            plain.push('-');
        }
    }
    plain.truncate(plain.trim_end_matches('-').len());
    plain
}

/// Whether somebody else's text looks as if it had a digest of ours.
fn ends_like_ours(text: &str) -> bool {
    let end = text.rsplit_once('-').map(|(_, end)| end);
    end.is_some_and(|end| end.len() == DIGEST && end.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_serial_number_that_is_a_name_stays_as_it_is() {
        for serial in ["dc6a1234", "a", "0", "E6614C311B7E6F35", "a-b-1"] {
            assert_eq!(slug(serial), serial.to_ascii_lowercase());
        }
    }

    #[test]
    fn serial_numbers_that_look_alike_do_not_meet() {
        let alike = ["ab", "a b", "a/b", "a-b", "a--b", "-a-b", "a_b", "", " ", "ä"];
        let slugs: std::collections::BTreeSet<_> = alike.iter().map(|serial| slug(serial)).collect();
        assert_eq!(slugs.len(), alike.len(), "{slugs:?}");
        // Not even one that was made to look like the slug of another.
        assert_ne!(slug(&slug("A B")), slug("A B"));
    }

    #[test]
    fn a_type_is_named_as_the_original_names_it() {
        assert_eq!(type_resource("PicoHSM"), "hsm.j5t.io/picohsm");
        assert_eq!(type_resource("SmartCard-HSM"), "hsm.j5t.io/smartcard-hsm");
        assert_eq!(type_resource("SmartCardHSM"), "hsm.j5t.io/smartcardhsm");
        assert_eq!(type_resource("My HSM / 2"), "hsm.j5t.io/my-hsm-2");
        assert_eq!(type_resource("§"), "hsm.j5t.io/generic");
    }

    #[test]
    fn a_type_cannot_pass_for_a_token() {
        assert_eq!(type_resource("Token-1234"), "hsm.j5t.io/type-token-1234");
        assert_ne!(type_resource("token-1234"), token_resource("1234"));
    }

    #[test]
    fn sockets_are_named_after_their_resource() {
        assert_eq!(socket_name("hsm.j5t.io/picohsm"), "hsm.j5t.io_picohsm.sock");
        let longest = socket_name(&token_resource(&"X".repeat(200)));
        // The longest directory of kubelet that we know of has 57 characters.
        assert!(longest.len() <= 107 - 57, "{longest}");
    }

    #[test]
    fn a_device_is_named_as_the_original_names_it() {
        let id = device_id("node-1", "/dev/bus/usb/001/015", Some("DENK01"));
        assert_eq!(id, "node-1-_dev_bus_usb_001_015-DENK01");
        assert_ne!(device_id("n", "/dev/a_b", None), device_id("n", "/dev/a/b", None));
        assert_ne!(
            device_id("n", "/dev/a", Some("x y")),
            device_id("n", "/dev/a", Some("x/y"))
        );
        assert_ne!(
            device_id("n", "/dev/a-b", Some("c")),
            device_id("n", "/dev/a", Some("b-c"))
        );
    }

    #[test]
    fn a_shell_takes_the_names_of_variables() {
        assert_eq!(variable_part("node-1-_dev_x.y-ä1"), "NODE_1__DEV_X_Y__1");
    }

    proptest! {
        #[test]
        fn a_slug_is_always_a_name(serial in any::<String>()) {
            let slug = slug(&serial);
            prop_assert!(!slug.is_empty() && slug.len() <= LONGEST_SLUG);
            prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-'));
        }

        #[test]
        fn different_serial_numbers_have_different_slugs(one in "[aA0 /-]{0,6}", other in "[aA0 /-]{0,6}") {
            prop_assert_eq!(one.eq_ignore_ascii_case(&other), slug(&one) == slug(&other));
        }

        #[test]
        fn different_places_have_different_ids(one in "(/[ab_]{1,2}){1,3}", other in "(/[ab_]{1,2}){1,3}", serial in "[a_/ -]{0,3}") {
            let id = |path: &str| device_id("n", path, Some(&serial));
            prop_assert_eq!(one == other, id(&one) == id(&other));
        }

        #[test]
        fn a_type_is_always_a_resource(device_type in any::<String>()) {
            let resource = type_resource(&device_type);
            let name = resource.strip_prefix("hsm.j5t.io/").unwrap();
            prop_assert!(!name.is_empty() && name.len() <= LONGEST_NAME);
            prop_assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()));
        }
    }
}
