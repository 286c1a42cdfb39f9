"""Words that name a failure, and words beside data. Pure.

Two lists are of English, with the nouns of some other languages that libraries and teams use. A
noun of a language that is in no list hides nothing that would stay otherwise, and keeps nothing.
"""

import re
import string
from functools import lru_cache


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


OF_CODE = _set(
    """
    key keys field fields column columns constraint relation table view index attribute attributes
    class enum property properties param params parameter parameters argument arguments variable
    method function module package type schema option header element reading import database
    collection topic queue bucket stream operation host service sequence symbol identifier

    feld felder spalte tabelle schlüssel eigenschaft attribut klasse methode funktion modul
    datenbank champ champs colonne clé propriété classe méthode fonction paramètre
    campo campos columna coluna tabla tabela clave chave propiedad propriedade clase método función
    поле столбец таблица ключ параметр свойство колонка
    """
)
"""Nouns of code: a name that is quoted before or behind one of them stays."""

OF_CONFIGURATION = _set(
    """
    permission permissions scope role policy claim action event events template variables env
    environment state states status stage step phase mode plan feature flag toggle setting settings
    config configuration format encoding charset locale language currency country region zone
    protocol scheme algorithm cipher codec driver plugin extension handler listener command task job
    workflow pipeline activity transition subscription exchange channel endpoint route resource
    component entity model mapping converter serializer deserializer validator rule constraint
    directive macro tag annotation interface namespace bean provider unit metric dimension
    category kind level priority carrier warehouse rate tariff rates gateway adapter
    partition shard keyspace dataset cluster deployment secret selector operator
    directory binding capability privilege grant opcode instruction

    recht berechtigung vorlage ereignis zustand status modus währung land rolle
    permiso evento plantilla estado moneda país rol permissão modelo moeda
    événement état modèle devise pays droit rôle
    """
)
"""Nouns of code and configuration: a name that is quoted behind one of them stays."""

OF_CODE_GLUED = tuple(
    """
    フィールド 項目 カラム 列 キー テーブル 変数 パラメータ パラメーター 引数 属性 プロパティ
    クラス メソッド モジュール イベント トピック キュー 権限 テンプレート 設定 ステータス 状態
    通貨 字段 列名 表 键 主键 参数 变量 方法 类型 模块 主题 队列 权限 模板 事件 状态 欄位 參數
    變數 필드 컬럼 열 키 테이블 변수 속성 매개변수 권한 이벤트 상태 ฟิลด์ คอลัมน์ ตาราง คีย์
    พารามิเตอร์ ตัวแปร
    """.split()  # noqa: SIM905 - a list would take a line for each
)
"""The same nouns of languages that write words without a blank between them."""

OF_PEOPLE = _set(
    """
    user username users customer customers client account member owner tenant login principal name
    names person people patient employee student guest recipient sender author contact buyer seller
    payer payee holder subscriber mr mrs ms dr
    benutzer nutzer kunde kundin kunden konto name mitarbeiter herr frau person
    utilisateur client cliente nom nombre usuario usuaria cuenta titular nome conta пользователь
    клиент имя
    """
)
"""Nouns of people: a name that is quoted behind one of them goes, in spite of other words."""

OF_DATA = _set(
    """
    value values input token literal text string content contents data got found received was
    entry instead wert eingabe inhalt valor valeur
    """
)
"""Nouns of values: what is quoted behind one of them is data."""

_FAILURE = _set(
    """
    aborted absent bad broken busy can't canceled cancelled cannot closed conflict conflicting
    conflicts corrupt corrupted couldn't critical deadlock declined deleted denied disabled
    disallowed doesn't duplicate duplicated empty error errors exceed exceeded exceeds exception
    excessive expire expired expires fail failed failure failures fatal forbidden found illegal
    inactive incorrect insufficient invalid isn't locked malformed mandatory mismatch missing
    non-empty not null overloaded permitted refused rejected required requires reset restricted
    revoked throttled throttling timed timeout unable unauthenticated unauthorized unavailable
    undefined unexpected unhandled unimplemented unknown unprocessable unrecognized unsupported
    unused violated violates violation wrong
    """
)
"""Words that say that, or how, something failed."""

_PLAIN = _set(
    """
    a access account action again all allowed already amount an and any are argument arguments
    array arrays as at attempt attempts authenticated authentication authorization authorized
    available balance be because been before being between blank body boolean but by can card cards
    character characters check choice client code codes column columns connection connections
    constraint contact contain contains content could country created credential credentials
    currency data database date datetime did digit digits directory do document does don't done
    element elements email end endpoint endpoints ensure entity entries entry equal event events
    exist existing exists expected external false field fields file files float for format from
    funds gateway general given greater has have header headers higher host id ids if image in
    input integer integers integrity internal into is it item items its json key keys larger least
    length less letter letters limit limits list lists long lower match matches max maximum media
    message messages method methods min minimum more must nan negative nested network no none nor
    number numbers object objects of on only open operation operations option optional options or
    our out output over page param parameter parameters params parse parsing past path payload
    payment payments peer pending permission permissions please positive present processed
    processing properties property provided proxy query queue queues quota range rate read receive
    received record records remote reply request requests resource resources response responses
    retries retry row rows run schema send server service session set short should signature size
    socket some specified start started state status stop stopped string strings support supported
    table tables temporarily text than that the there this time to token tokens too topic topics
    transaction true try type types unique unit up url user uuid valid value values verification
    verified version was we were when while will with within without write xml year yet you your
    zero
    """
)
"""Words beside them in error texts."""

_NAMING_KEYS = _set(
    """
    error errors err code codes errno errcode errorcode errortype errortypes reason type exception
    fault faultcode subcode loc location path pointer param field property keyword rule constraint
    status state kind category cause decline declinecode problem
    """
)
"""Keys whose values name a failure; of keys of several words the last one counts, or the first."""

_SCREAMING = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_SNAKE = re.compile(r"_{0,2}[a-z][a-z0-9]*(?:_[a-z0-9]+)+_{0,2}")
_DOTTED = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|\\|#)[\w$<>-]+)+(?:\(\))?")
_LOGIN = re.compile(r"[^\W\d_A-Z]+\.[^\W\d_A-Z]+")
_CAMEL = re.compile(r"[a-zA-Z][a-z]*(?:[A-Z][a-z0-9]*)+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OF_NAMES = _set("mc mac de del di du da la le van von st fitz o d ten ter")
"""First parts of names of people that are written like a name of code, as in ``McDonald``."""

_IN_FILE = re.compile(r"[\w.<>-]{1,100}/[\w.<>-]{1,100}\.[a-z]{1,5}|[^\s#]{1,200}#[\w.<>$-]{1,100}")
"""A place in code, see ``places``."""

_LEAST_HUMP = 2.5
_AROUND = string.punctuation.replace("_", "").replace("$", "")


@lru_cache(maxsize=50_000)
def looks_like_code(text: str) -> bool:
    """Return whether a word is written as names of code are, without the punctuation around it.

    As in ``CARD_DECLINED``, ``card_declined``, ``OrderPlaced``, ``orderPlaced``,
    ``shop.tax.VatTable``, ``Shop::Order``. ``anna.schmidt`` may be a login, and ``McDonald`` is
    somebody's name.
    """
    bare = text.strip(_AROUND)
    if _IN_FILE.fullmatch(bare):
        return True
    if "." in bare or ":" in bare or "\\" in bare or "#" in bare:
        return _DOTTED.fullmatch(bare) is not None and _LOGIN.fullmatch(bare) is None
    if "_" in bare:
        return (_SCREAMING.fullmatch(bare) or _SNAKE.fullmatch(bare)) is not None
    if not _CAMEL.fullmatch(bare) or bare.isupper():
        return False
    humps = _HUMPS.findall(bare)
    is_of_people = len(humps) == 2 and humps[0].lower() in _OF_NAMES  # noqa: PLR2004 - as McDonald
    return len(humps) > 1 and len(bare) >= _LEAST_HUMP * len(humps) and not is_of_people


def is_login(name: str) -> bool:
    """Return whether a word may be somebody's login, as ``anna.schmidt``, or a name of code."""
    return _LOGIN.fullmatch(name) is not None


@lru_cache(maxsize=10_000)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name of code in lower case: ``errorCode`` is ``error``, ``code``."""
    return tuple(map(str.lower, _HUMPS.findall(name)))


CODE = "code"
CONFIGURATION = "configuration"
PEOPLE = "people"
DATA = "data"
_KINDS = {
    CODE: OF_CODE,
    CONFIGURATION: OF_CONFIGURATION,
    PEOPLE: OF_PEOPLE,
    DATA: OF_DATA,
}


@lru_cache(maxsize=10_000)
def kinds_of(noun: str) -> frozenset[str]:
    """Return the kinds of a name beside a noun, which may have punctuation around it.

    Of a name of code its last part is the noun.
    """
    words = {noun.lower().strip(_AROUND), *words_of(noun)[-1:]}
    return frozenset(kind for kind, nouns in _KINDS.items() if not nouns.isdisjoint(words))


@lru_cache(maxsize=4_096)
def names_failure(key: str) -> bool:
    """Return whether values of this key, of an object or in ``key=value``, name a failure."""
    words = words_of(key)
    if not words or any(map(str.isdecimal, key)):
        return False
    ends = {words[0], words[-1], "".join(words)}
    return not (ends.isdisjoint(_NAMING_KEYS) and words[-1] not in OF_CODE)


_WITHOUT_NAMES = _FAILURE | _PLAIN
_OF_TEXT = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@lru_cache(maxsize=10_000)
def is_of_failure(text: str) -> bool:
    """Return whether a text has only words of failures, as ``Missing data``: it quotes nobody."""
    words = set(_OF_TEXT.findall(text.lower()))
    return not _FAILURE.isdisjoint(words) and words <= _WITHOUT_NAMES
