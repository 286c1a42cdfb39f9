"""Names of fields whose values are secrets or personal data: ``apiKey``, ``DB_PASSWORD``. Pure.

A name is known by its words: ``userPassword`` and ``user_password`` end with ``password``. Two
words may be one name, as ``api_key``. Some names are also known at the end of a longer word, as in
``PGPASSWORD``.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

AT_END_OF_WORD = """
    password passwords passwd passphrase passcode passwort kennwort pwd secret secrets token tokens
    credential credentials api_key access_key secret_key private_key signing_key account_key
    encryption_key session_id card_number ssn
"""
"""Names whose values are secret in any text, and at the end of a longer word, as in ``dbpassword``.

No other word ends with one of them.
"""

IN_TEXT = """
    authorization cookie master_key auth_key subscription_key shared_key otp mfa_code recovery_code
    verification_code security_code iban cvv cvc card_no
"""
"""Other names whose values are secret in any text, as in ``otp: x``."""

OF_FIELDS = """
    pass pw pin jwt bearer cookies signature sig senha contrasena wachtwoord motdepasse sid sessid
    csrf xsrf dsn connection_string connection_str conn_string conn_str totp recovery_codes
    backup_code backup_codes auth_code authorization_code code_verifier sms_code seed_phrase
    mnemonic saml_response saml_assertion client_assertion app_key application_key service_key
    storage_key license_key webhook_key hmac_key session_key decryption_key deploy_key write_key
    consumer_key client_key ssh_key social_security social_insurance national_insurance national_id
    passport nino cpf aadhaar aadhar bsn dni nif curp pesel personnummer nhs_number tax_id
    tax_number tax_no steuer_id steuernummer drivers_license driver_license driving_licence bban
    account_number account_no acct_number bank_account kontonummer sort_code routing_number pan
    credit_card cc_number cc_num cc_no phone phones phone_number telephone cellphone mobile
    mobilephone tel fax msisdn whatsapp birth birthdate birthday dateofbirth born dob geb
    geburtsdatum gebdatum
"""
"""Names whose values are secret where they surely name a field: in JSON, in XML, before ``=``."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDS = tuple(AT_END_OF_WORD.replace("_", "").split())
_IN_TEXT = frozenset(IN_TEXT.replace("_", "").split())
_OF_FIELDS = _IN_TEXT | frozenset(OF_FIELDS.replace("_", "").split())


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether values of a field with this name are hidden: ``apiKey``, ``passwordHint``."""
    words = _words(name)
    pairs = map("".join, pairwise(words))
    return any(_is_secret(part, _OF_FIELDS) for part in (*words, *pairs))


@lru_cache(maxsize=4096)
def names_value(name: str, *, is_field: bool) -> bool:
    """Return whether the text behind *name* is hidden, because the name ends as a secret's.

    *is_field*: it is surely the name of a value, as in ``pin=1``; then ``OF_FIELDS`` count too.
    """
    names = _OF_FIELDS if is_field else _IN_TEXT
    last_words = _words(name)[-2:]
    return _is_secret("".join(last_words[-1:]), names) or _is_secret("".join(last_words), names)


def _is_secret(part: str, names: frozenset[str]) -> bool:
    return part in names or part.endswith(_ENDS)


def _words(name: str) -> list[str]:
    if not name.isascii():
        name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return list(map(str.lower, _WORD.findall(name)))
