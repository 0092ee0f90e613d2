//! The list of readers that the CCID driver serves. pcscd looks at no reader that is not in it, and Debian's list is older than
//! some tokens.
//!
//! The list is three arrays in a property list: vendors, products and names, where equal positions belong together.

use anyhow::{Context, Result, ensure};

use super::recipe::Reader;

/// Where Debian keeps the list; the driver's bundle links to it.
pub const LIST: &str = "/etc/libccid_Info.plist";

/// The list with these readers in it.
pub fn with_readers(list: &str, readers: &[Reader]) -> Result<String> {
    let vendors = values(list, "ifdVendorID")?;
    let products = values(list, "ifdProductID")?;
    let names = values(list, "ifdFriendlyName")?;
    ensure!(
        vendors.len() == products.len() && vendors.len() == names.len(),
        "the list of readers has {} vendors, {} products and {} names",
        vendors.len(),
        products.len(),
        names.len()
    );
    let known = |reader: &Reader| {
        let (vendor, product) = (id(reader.vendor), id(reader.product));
        let mut pairs = vendors.iter().zip(&products);
        pairs.any(|(v, p)| v.eq_ignore_ascii_case(&vendor) && p.eq_ignore_ascii_case(&product))
    };
    let mut list = list.to_owned();
    for reader in readers.iter().filter(|reader| !known(reader)) {
        append(&mut list, "ifdVendorID", &id(reader.vendor))?;
        append(&mut list, "ifdProductID", &id(reader.product))?;
        append(&mut list, "ifdFriendlyName", reader.name)?;
    }
    Ok(list)
}

fn id(number: u16) -> String {
    format!("0x{number:04X}")
}

fn values<'a>(list: &'a str, key: &str) -> Result<Vec<&'a str>> {
    let (start, end) = array(list, key)?;
    let value = |line: &'a str| line.trim().strip_prefix("<string>")?.strip_suffix("</string>");
    Ok(list[start..end].lines().filter_map(value).collect())
}

fn append(list: &mut String, key: &str, value: &str) -> Result<()> {
    let (_, end) = array(list, key)?;
    list.insert_str(end, &format!("\t<string>{value}</string>\n\t"));
    Ok(())
}

/// Where the content of a key's array begins and ends.
fn array(list: &str, key: &str) -> Result<(usize, usize)> {
    let find = |text: &str, from: usize| Some(from + list.get(from..)?.find(text)?);
    let bounds = || {
        let start = find("<array>", find(&format!("<key>{key}</key>"), 0)?)? + "<array>".len();
        Some((start, find("</array>", start)?))
    };
    bounds().with_context(|| format!("find the array {key} in the list of readers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICO: Reader = Reader {
        vendor: 0x2e8a,
        product: 0x10fd,
        name: "Pico HSM",
    };

    fn list(readers: &[(&str, &str, &str)]) -> String {
        let array = |key: &str, values: Vec<&str>| {
            let strings = values
                .iter()
                .map(|value| format!("\t\t<string>{value}</string>\n"));
            format!(
                "\t<key>{key}</key>\n\t<array>\n{}\t</array>\n\n",
                strings.collect::<String>()
            )
        };
        [
            array("ifdVendorID", readers.iter().map(|reader| reader.0).collect()),
            array("ifdProductID", readers.iter().map(|reader| reader.1).collect()),
            array("ifdFriendlyName", readers.iter().map(|reader| reader.2).collect()),
        ]
        .concat()
    }

    #[test]
    fn a_reader_is_added_at_the_same_place_of_all_three_arrays() {
        // The vendor and the product are both there already, but not of one reader.
        let before = [("0x2E8A", "0x000A", "Other"), ("0x062D", "0x10FD", "Another")];
        let added = with_readers(&list(&before), &[PICO]).unwrap();
        let after = [before[0], before[1], ("0x2E8A", "0x10FD", "Pico HSM")];
        assert_eq!(added, list(&after));
    }

    #[test]
    fn a_reader_that_is_known_stays_as_it_is() {
        let known = list(&[("0x2e8a", "0x10fd", "Its own name")]);
        assert_eq!(with_readers(&known, &[PICO]).unwrap(), known);
    }

    #[test]
    fn a_list_that_is_not_understood_is_refused() {
        let uneven = list(&[("0x2E8A", "0x10FD", "")]).replacen("<string>0x2E8A</string>", "", 1);
        let error = with_readers(&uneven, &[PICO]).unwrap_err().to_string();
        assert!(error.contains("0 vendors, 1 products and 1 names"), "{error}");
        let error = with_readers("", &[]).unwrap_err().to_string();
        assert!(error.contains("ifdVendorID"), "{error}");
    }
}
