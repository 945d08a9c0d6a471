/* Numbers as text, rounded to the safe side as hockeystick's reports round them. */
"use strict";

/** A number in so many significant digits, as Python's format code "g" writes it. */
function general(value, digits) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent >= -4 && exponent < digits) return short(value.toFixed(digits - 1 - exponent));
  const sign = exponent < 0 ? "-" : "+";
  return `${short(mantissa)}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

function rounded(value, digits, side) {
  const shown = general(value, digits);
  if (value === 0 || !Number.isFinite(value) || (Number(shown) - value) * side >= 0) return shown;
  const unit = 10 ** (Math.floor(Math.log10(value)) - digits + 1);
  return general(Number(shown) + side * unit, digits);
}

/** Digits that are no smaller than the number. */
const roundedUp = (value, digits = 5) => rounded(value, digits, 1);

/** Digits that are no larger than the number. */
const roundedDown = (value, digits = 5) => rounded(value, digits, -1);

/** A probability as a percentage of three digits, rounded up. */
const percentUp = (share) => `${general(Math.min(100, Number(roundedUp(100 * share, 3))), 6)} %`;

/** A whole number with commas. */
const counted = (value) => value.toLocaleString("en-US");

/** A small probability as "1 in 100,000" where it is one over a whole number. */
function oneIn(probability) {
  const whole = Math.round(1 / probability);
  const isWhole = Math.abs(1 / whole - probability) <= 1e-12 * probability;
  return isWhole && whole <= 1e15 ? `1 in ${counted(whole)}` : general(probability, 6);
}
