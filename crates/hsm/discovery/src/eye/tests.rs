use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use trustplane_hsm_core::usb::Selection;

use super::*;
use crate::fake::{PICO, Plug, Tree};

fn selection(text: &str) -> Selection {
    serde_json::from_str(text).unwrap()
}

const SMART_CARDS: &str = r#"{"auto":{"ccid":true}}"#;
const BY_NUMBERS: &str = r#"{"usb":[{"vendor":"20A0","product":"4230"}]}"#;

fn eye(tree: &Tree, text: &str) -> Eye {
    Eye::new(vec![tree.sysfs()], vec![tree.dev()], selection(text)).unwrap()
}

fn found(sight: &Sight) -> Vec<(&str, Option<&str>)> {
    let told = sight.found.iter();
    told.map(|found| (found.device_path.as_str(), found.serial.as_deref()))
        .collect()
}

#[test]
fn a_token_is_found_where_the_kernel_lists_it() {
    let tree = Tree::new();
    tree.plug(PICO);
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!(
        found(&sight),
        [("/dev/bus/usb/001/015", Some("e6614c311b7e6f35"))]
    );
    assert_eq!(sight.found[0].info["sysfs-path"], "/sys/bus/usb/devices/1-1.2");
    assert_eq!(sight.found[0].info["product"], "Pico HSM");
}

#[test]
fn decoys_neither_hurt_nor_block() {
    let tree = Tree::new();
    tree.plug(PICO);
    tree.decoys();
    for text in [BY_NUMBERS, SMART_CARDS] {
        let sight = eye(&tree, text).look().unwrap();
        assert_eq!(
            found(&sight),
            [("/dev/bus/usb/001/015", Some("e6614c311b7e6f35"))],
            "{text}"
        );
        assert_eq!(sight.without_node, 0);
    }
}

#[test]
fn a_broken_serial_number_is_none_and_the_token_is_still_found() {
    let tree = Tree::new();
    tree.plug(PICO);
    let serial = tree.device(PICO.port).join("serial");
    fs::remove_file(&serial).unwrap();
    fs::create_dir(&serial).unwrap();
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!(found(&sight), [("/dev/bus/usb/001/015", None)]);
}

#[test]
fn a_smart_card_is_known_by_its_interface() {
    let tree = Tree::new();
    let other = Plug {
        numbers: ("1234", "5678"),
        ..PICO
    };
    tree.plug(other);
    tree.plug(Plug {
        port: "1-3",
        number: 16,
        class: "08",
        ..other
    });
    let paths = |text: &str| {
        let sight = eye(&tree, text).look().unwrap();
        sight
            .found
            .into_iter()
            .map(|found| found.device_path)
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(SMART_CARDS), ["/dev/bus/usb/001/015"]);
    assert_eq!(paths(BY_NUMBERS), Vec::<String>::new());
}

#[test]
fn the_first_root_that_is_there_counts() {
    let (first, second) = (Tree::new(), Tree::new());
    second.plug(PICO);
    let look = |roots: Vec<PathBuf>| {
        let eye = Eye::new(roots, vec![second.dev()], selection(BY_NUMBERS)).unwrap();
        eye.look()
    };
    let absent = first.sysfs().join("absent");
    assert_eq!(look(vec![first.sysfs(), second.sysfs()]).unwrap().found.len(), 0);
    assert_eq!(look(vec![absent.clone(), second.sysfs()]).unwrap().found.len(), 1);
    let told = look(vec![absent.clone()]).unwrap_err().to_string();
    assert_eq!(told, format!("no sysfs at {}", absent.display()));
}

#[test]
fn a_machine_without_usb_has_no_devices_and_no_fault() {
    let tree = Tree::new();
    fs::remove_dir_all(tree.sysfs().join("bus/usb")).unwrap();
    assert_eq!(eye(&tree, BY_NUMBERS).look().unwrap().found, []);
}

#[test]
fn an_empty_directory_is_a_machine_without_devices_and_any_other_is_no_tree() {
    let tree = Tree::new();
    fs::remove_dir_all(tree.sysfs()).unwrap();
    fs::create_dir(tree.sysfs()).unwrap();
    assert_eq!(eye(&tree, BY_NUMBERS).look().unwrap().found, []);
    fs::create_dir(tree.sysfs().join("etc")).unwrap();
    assert!(matches!(eye(&tree, BY_NUMBERS).look(), Err(LookError::NoTree(_))));
}

#[test]
fn a_device_without_a_file_of_its_own_is_not_guessed_at() {
    let tree = Tree::new();
    tree.plug(PICO);
    let dev = tree.dev();
    fs::remove_file(dev.join("bus/usb/001/015")).unwrap();
    // Files of other devices, which a guess would take.
    for name in ["ttyUSB0", "ttyACM0", "hidraw0", "sc-hsm", "pkcs11"] {
        fs::write(dev.join(name), "").unwrap();
    }
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!((found(&sight), sight.without_node), (vec![], 1));

    let interface = tree.device(PICO.port).join("1-1.2:1.0");
    fs::create_dir_all(interface.join("0003:20A0:4230.0001/hidraw/hidraw3")).unwrap();
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!(sight.without_node, 1, "it has a name, but there is no such file");
    fs::write(dev.join("hidraw3"), "").unwrap();
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!(found(&sight)[0].0, "/dev/hidraw3");

    fs::create_dir_all(interface.join("tty/ttyACM7")).unwrap();
    fs::write(dev.join("ttyACM7"), "").unwrap();
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!(found(&sight)[0].0, "/dev/ttyACM7");

    fs::write(dev.join("bus/usb/001/015"), "").unwrap();
    let sight = eye(&tree, BY_NUMBERS).look().unwrap();
    assert_eq!(found(&sight)[0].0, "/dev/bus/usb/001/015");
}

#[test]
fn a_file_that_leads_out_of_dev_is_no_device_file() {
    let tree = Tree::new();
    tree.plug(PICO);
    let node = tree.dev().join("bus/usb/001/015");
    fs::remove_file(&node).unwrap();
    symlink("/etc/hostname", &node).unwrap();
    assert_eq!(eye(&tree, BY_NUMBERS).look().unwrap().without_node, 1);
}

#[test]
fn device_files_are_found_by_their_path() {
    let tree = Tree::new();
    tree.plug(PICO);
    fs::write(tree.dev().join("ttyACM0"), "").unwrap();
    symlink("bus/usb/001/015", tree.dev().join("sc-hsm")).unwrap();
    let look = |text: &str| eye(&tree, text).look().unwrap();
    let sight = look(r#"{"path":{"glob":"/dev/ttyACM*","permissions":"0660"}}"#);
    assert_eq!(found(&sight), [("/dev/ttyACM0", None)]);
    assert_eq!(sight.found[0].info["path-pattern"], "/dev/ttyACM*");
    assert_eq!(sight.found[0].info["permissions"], "0660");
    let sight = look(r#"{"path":{"glob":"/dev/sc-*"}}"#);
    assert_eq!(found(&sight), [("/dev/sc-hsm", None)]);
    assert_eq!(sight.found[0].node, "/dev/bus/usb/001/015");
    assert_eq!(sight.found[0].info["permissions"].len(), 4);
    // Without any part that is about the bus, nothing of it is needed.
    let only = selection(r#"{"path":{"glob":"/dev/ttyACM0"}}"#);
    let eye = Eye::new(vec![], vec![tree.dev()], only).unwrap();
    assert_eq!(eye.look().unwrap().found.len(), 1);
}

#[test]
fn whatever_happens_on_the_bus_shows_from_afar() {
    let tree = Tree::new();
    let eye = eye(&tree, BY_NUMBERS);
    let mut last = eye.glimpse().unwrap();
    let mut is_different = || {
        let now = eye.glimpse().unwrap();
        std::mem::replace(&mut last, now.clone()) != now
    };
    tree.plug(PICO);
    assert!(is_different());
    assert!(!is_different());
    // The same place, another number: nobody saw it go.
    tree.unplug(PICO);
    tree.plug(Plug { number: 16, ..PICO });
    assert!(is_different());
    tree.unplug(Plug { number: 16, ..PICO });
    assert!(is_different());
}

fn allow(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn who_may_open_the_device_file_is_told() {
    let tree = Tree::new();
    tree.plug(PICO);
    let file = tree.dev().join("bus/usb/001/015");
    let gid = fs::metadata(&file).unwrap().gid().to_string();
    symlink("bus/usb/001/015", tree.dev().join("sc-hsm")).unwrap();
    for (mode, told) in [(0o664, "0664"), (0o600, "0600"), (0o1666, "1666")] {
        allow(&file, mode);
        // Of a link what it leads to counts.
        for text in [
            BY_NUMBERS,
            r#"{"path":{"glob":"/dev/sc-*","permissions":"0777"}}"#,
        ] {
            let sight = eye(&tree, text).look().unwrap();
            let info = &sight.found[0].info;
            assert_eq!((info["mode"].as_str(), &info["gid"]), (told, &gid), "{text}");
        }
    }
}

#[test]
fn a_new_mode_shows_from_afar_because_no_event_tells_of_it() {
    let tree = Tree::new();
    tree.plug(PICO);
    fs::write(tree.dev().join("ttyACM0"), "").unwrap();
    for (text, file) in [
        (BY_NUMBERS, "bus/usb/001/015"),
        (r#"{"path":{"glob":"/dev/ttyACM*"}}"#, "ttyACM0"),
    ] {
        let (eye, file) = (eye(&tree, text), tree.dev().join(file));
        allow(&file, 0o600);
        let sight = eye.look().unwrap();
        assert!(eye.sees_the_same(&sight).unwrap());
        allow(&file, 0o660);
        assert!(!eye.sees_the_same(&sight).unwrap(), "{text}");
        let sight = eye.look().unwrap();
        assert!(eye.sees_the_same(&sight).unwrap());
        assert_eq!(sight.found[0].info["mode"], "0660");
    }
}
