"""Answers of an extraction suite → agreement, and grades where those mean something. Pure.

    amounts, dates  one written form → one value, or nothing
    reading         a field's value as the answer gives it → its canonical text
    grading         the answers to one item → agreement and grades
    comparing       two starts of one suite, item by item

Text equality is reported here and is never evidence; whether answers moved, the digests say.
"""
