//! Costs as recordings state them: dollars, as a JSON number or as a text.

use serde_json::Value;

/// Pico-dollars of a dollar.
const DECIMALS: i64 = 12;

/// Costs above this are no costs: a million dollars.
const MAX_PUSD: u128 = 1_000_000_000_000_000_000;

/// A cost in dollars as pico-dollars, rounded half up. `None` where it is no number, negative, or absurd.
pub fn pusd(usd: Option<&Value>) -> Option<u64> {
    match usd? {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text.trim()),
        _ => None,
    }
}

/// Reads a decimal with or without an exponent, through its digits: floats would round twice.
fn parse(text: &str) -> Option<u64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, fraction].concat();
    if digits.is_empty() || digits.len() > 64 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The value is digits · 10^shift pico-dollars.
    let shift = exponent.checked_add(DECIMALS)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let kept = i64::try_from(digits.len()).ok()?.checked_add(shift.min(0))?;
    let kept = usize::try_from(kept).ok();
    let head = kept.map_or("", |kept| &digits[..kept]);
    let rounds_up = kept.is_some_and(|kept| digits[kept..].bytes().next().is_some_and(|b| b >= b'5'));
    let head = head.trim_start_matches('0');
    let value = if head.is_empty() { 0 } else { head.parse::<u128>().ok()? };
    let zeros = u32::try_from(shift.max(0)).ok()?;
    let scaled = if value == 0 { 0 } else { value.checked_mul(10_u128.checked_pow(zeros)?)? };
    let pusd = scaled.checked_add(u128::from(rounds_up))?;
    u64::try_from(pusd).ok().filter(|_| pusd <= MAX_PUSD)
}

/// Adds what is stated; nothing stated adds nothing.
pub fn add(sum: &mut Option<u64>, pusd: Option<u64>) {
    if let Some(pusd) = pusd {
        *sum = Some(sum.unwrap_or(0).saturating_add(pusd));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::pusd;

    #[test]
    fn dollars_are_exact_in_every_spelling() {
        for (usd, expected) in [
            (json!(0), 0),
            (json!(0.018078), 18_078_000_000),
            (json!("0.01495815"), 14_958_150_000),
            (json!(0.016626000000000002), 16_626_000_000),
            (json!(0.6904087999999998), 690_408_800_000),
            (json!(1.5e-7), 150_000),
            (json!("1E2"), 100_000_000_000_000),
            (json!("0.0000000000005"), 1),
            (json!("0.00000000000049"), 0),
            (json!("1e-30"), 0),
            (json!(12), 12_000_000_000_000),
        ] {
            assert_eq!(pusd(Some(&usd)), Some(expected), "{usd}");
        }
    }

    #[test]
    fn what_is_no_cost_is_none() {
        for usd in ["-1", "NaN", "", ".", "1e400", "1e99999999999999999999", "2000000", "$1", "1.2.3"] {
            assert_eq!(pusd(Some(&json!(usd))), None, "{usd}");
        }
        assert_eq!(pusd(Some(&json!(-0.5))), None);
        assert_eq!(pusd(Some(&json!(null))), None);
        assert_eq!(pusd(None), None);
    }
}
