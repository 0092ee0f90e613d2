//! Amounts, as Kubernetes writes them.

/// Billionths: the finest that Kubernetes tells apart.
const BILLIONTHS: i128 = 1_000_000_000;

/// What Kubernetes takes every larger amount for.
const MOST: i128 = i64::MAX as i128 * BILLIONTHS;

/// Reads an amount such as `100m`, `1.5`, `2e3` or `128Mi` in billionths, rounded up. `None` if it is none.
pub(super) fn billionths(text: &str) -> Option<i128> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.contains('.') || whole.is_empty() && part.is_empty() {
        return None;
    }
    let (times, exponent) = unit(suffix)?;
    let digits = format!("{whole}{part}");
    let digits = digits.trim_start_matches('0');
    // So many digits are more than the most, whatever the unit; so few are less than a billionth.
    let exponent = exponent + 9 - i32::try_from(part.len()).ok()?;
    if digits.is_empty() {
        return Some(0);
    }
    let magnitude = i32::try_from(digits.len()).ok()? + exponent;
    let amount = match magnitude {
        36.. => MOST,
        ..=0 => times_up(1, times, 0),
        _ => times_up_of(digits, times, exponent),
    };
    Some(sign * amount.min(MOST))
}

/// `digits × times × 10^exponent`, rounded up. The digits may be more than fit: those behind the point only round up.
fn times_up_of(digits: &str, times: i128, exponent: i32) -> i128 {
    let keep = digits.len().min(36);
    let (kept, cut) = digits.split_at(keep);
    let mut number: i128 = kept.parse().unwrap_or(MOST);
    if cut.bytes().any(|digit| digit != b'0') {
        number += 1;
    }
    let cut = i32::try_from(cut.len()).unwrap_or(i32::MAX);
    times_up(number, times, exponent.saturating_add(cut))
}

fn times_up(number: i128, times: i128, exponent: i32) -> i128 {
    let number = number.checked_mul(times).unwrap_or(MOST);
    match u32::try_from(exponent) {
        Ok(exponent) => 10_i128
            .checked_pow(exponent)
            .and_then(|power| number.checked_mul(power))
            .unwrap_or(MOST),
        Err(_) => match 10_i128.checked_pow(exponent.unsigned_abs()) {
            Some(power) => number / power + i128::from(number % power != 0),
            None => 1,
        },
    }
}

/// What a suffix multiplies with: a number, and a power of ten.
fn unit(suffix: &str) -> Option<(i128, i32)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let exponent = is_number.then(|| exponent.parse::<i32>().ok())??;
            (exponent.unsigned_abs() < 1000).then_some((1, exponent))
        }
    }
}

/// Whether an amount in billionths is a whole number.
pub(super) fn is_whole(billionths: i128) -> bool {
    billionths % BILLIONTHS == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        for (text, amount) in [
            ("0", 0),
            ("1", BILLIONTHS),
            ("100m", BILLIONTHS / 10),
            ("1.5", BILLIONTHS * 3 / 2),
            (".5", BILLIONTHS / 2),
            ("5.", BILLIONTHS * 5),
            ("128Mi", BILLIONTHS * 128 * 1024 * 1024),
            ("1.5Ki", BILLIONTHS * 1536),
            ("2e3", BILLIONTHS * 2000),
            ("2E", BILLIONTHS * 2_000_000_000_000_000_000),
            ("2E3", BILLIONTHS * 2000),
            ("5e-1", BILLIONTHS / 2),
            ("+1k", BILLIONTHS * 1000),
            ("-1", -BILLIONTHS),
            ("1n", 1),
            // Less than a billionth is rounded up.
            ("0.1n", 1),
            ("1e-99", 1),
            ("99999E", MOST),
            ("1e99", MOST),
            ("000000000000000000000000000000000000000000001", BILLIONTHS),
            ("1.00000000000000000000000000000000000000000000", BILLIONTHS),
        ] {
            assert_eq!(billionths(text), Some(amount), "{text}");
        }
    }

    #[test]
    fn a_text_is_no_amount_when_kubernetes_refuses_it() {
        for text in [
            "", "-", ".", "1.2.3", "1 Gi", "Gi", "1gi", "1K", "1mi", "0x1", "1e", "1e1.5", "ten", "1Gi ", "é",
        ] {
            assert_eq!(billionths(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in ".{0,40}") {
            let _ = billionths(&text);
        }

        #[test]
        fn more_milli_is_more(a in 0_u64..1_000_000_000_000, b in 0_u64..1_000_000_000_000) {
            let read = |n: u64| billionths(&format!("{n}m")).unwrap();
            prop_assert_eq!(read(a).cmp(&read(b)), a.cmp(&b));
        }
    }
}
