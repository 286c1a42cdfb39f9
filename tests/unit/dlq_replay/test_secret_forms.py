"""Each form in which a secret stands in texts: what must be hidden, and what must stay readable."""

import pytest

from dlq_replay.text.masks import MASKED, mask_text

S = "Zq7xhunter"
"""The secret, as no word of a readable part."""

FORMS = {
    "headers": """
        Authorization: Token §
        Authorization: ApiKey §
        authorization: apikey §
        Authorization: Negotiate §
        Authorization: NTLM §==
        Authorization: Digest username="bob", realm="x", nonce="§", response="§"
        Authorization: Digest username=bob, response=§, uri="/x?y=z"
        Authorization: Token token=§, nonce=§
        Authorization: AWS4-HMAC-SHA256 Credential=§/20261128/s3, SignedHeaders=host, Signature=§
        Authorization: Bearer §
        Authorization: Bearer    §xy
        Authorization: §
        Proxy-Authorization: Basic §
        {'Authorization': 'Token §', 'Host': 'x'} ~Host
        "authorization":"Token §","host":"x" ~"host":"x"
        Cookie: theme=dark; session=§
        cookie: session=§; theme=dark
        Cookie: a="b"; session=§; c=d
        Set-Cookie: session=§; Path=/; HttpOnly
        {"Cookie": "a=b; session=§", "n": 1} ~"n": 1
        X-Api-Key: §
        x-amz-security-token: §
        Ocp-Apim-Subscription-Key: §
        refused Bearer    §xy of bob ~of bob
        POST /x failed with Authorization: Bearer §abc for bob ~for bob
    """,
    "of languages": """
        :password=>"§"
        {:password=>"§ x", :name=>"bob"} ~:name=>"bob"
        'password' => '§'
        'password' => '§', 'user' => 'bob' ~'user' => 'bob'
        Map(password -> §, user -> bob) ~user -> bob
        Map(password -> §,user -> bob) ~user -> bob
        password := "§"
        password == "§"
        {'password': b'§ x', 'user': 'bob'} ~'user': 'bob'
        {'password': u'§'}
        User(name=bob, password=§) ~name=bob
        User(password=§,name=bob) ~name=bob
        User { name: "bob", password: "§ x" } ~name: "bob"
        Some { password: Some("§ x") }
        {Password:§ User:bob} ~User:bob
        { Password = §, User = bob } ~User = bob
        [password:§, user:bob] ~user:bob
        user[password]=§&user[name]=bob ~user[name]=bob
        headers["password"] = "§"
        {"password":"§","user":"bob"} ~"user":"bob"
        {"password": "§\\" §", "user": "bob"} ~"user": "bob"
        "{\\"password\\":\\"§ x\\",\\"user\\":\\"bob\\"}" ~\\"user\\":\\"bob\\"
        {\\\\\\"password\\\\\\":\\\\\\"§ x\\\\\\",\\\\\\"user\\\\\\":1} ~user
        {\\u0022password\\u0022:\\u0022§ x\\u0022,\\u0022user\\u0022:1} ~user
        {&quot;password&quot;:&quot;§ x&quot;,&quot;user&quot;:1} ~user
        %7B%22password%22%3A%22§%22%2C%22user%22%3A1%7D ~user
        a=1&password%3D§%26user%3Dbob ~user%3Dbob
        line\\npassword=§\\nuser=bob ~user=bob
        line\\notp=§ ok ~ok
        password=„§ x“ ok ~ok
        password: “§ x”, user: bob ~user: bob
        password=`§ x` ok ~ok
        mysql --password § --host x ~--host x
        ['mysql', '--password', '§', '--host', 'x'] ~'--host'
        mysql --password=§ --host x ~--host x
        <user password="§ x" name="bob"/> ~name="bob"
        <Password>§</Password><n>1</n> ~<n>1</n>
        <wsse:Password Type="a">§</wsse:Password><n>1</n> ~<n>1</n>
        <credentials><user>§</user><x>§</x></credentials><n>1</n> ~<n>1</n>
        <token /><n>1</n> ~<n>1</n> -
    """,
    "of databases": """
        Key (reset_token)=(§) already exists. ~already exists
        Key (password)=(§) already exists. ~already exists
        Key (ssn)=(§) already exists. ~already exists
        Key (email, reset_token)=(bob, §) already exists. ~already exists
        Key (password, tenant)=(§, 7) already exists. ~already exists
        Key (lower(token::text))=(§) already exists. ~already exists
        Key (token)=(§)§) already exists. ~already exists
        postgres://bob:§@db.example/x ~db.example/x
        postgres://bob:x@§@db.example/x ~db.example/x
        postgres://bob:x/§@db.example/x ~db.example/x
        postgres://bob:§#?§@db.example/x ~db.example/x
        mongodb+srv://bob:§@a.example,b.example/x ~b.example/x
        redis://:§@cache:6379/0 ~cache:6379/0
        amqps://bob:§@broker:5671 refused ~refused
        bob:§@tcp(db:3306)/shop ~db:3306
        Server=db;User Id=bob;Password=§;Encrypt=1 ~Encrypt=1
        Password=ab;§;Server=db ~Server=db
        AccountName=x;AccountKey=§==;EndpointSuffix=core ~EndpointSuffix
        Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=§= ~Endpoint
    """,
    "names": """
        PGPASSWORD=§ psql ~psql
        DBPASSWORD=§
        MYSQL_PWD=§
        accesstoken=§
        authtoken: §
        clientsecret=§
        client_secret=§
        clientSecret: §
        apikey=§
        api key: §
        API_KEY=§
        password2=§
        "dbpassword": "§"
        "passwordHint": "§"
        'otp': '§', 'n': 1 ~'n': 1
        otp=§&n=1 ~n=1
        pin=§
        passwort=§
        secret: {"a": "§", "b": ["§"]}, "n": 1 ~"n": 1
        "secret": {"a": {"b": "§"}, "c": "§"}, "n": 1 ~"n": 1
        'tokens': ['§', '§'], 'n': 1 ~'n': 1
        "secret": {"a": "§ and it was cut
    """,
    "values": """
        password=ab,§
        password=ab,§, user=bob ~user=bob
        password=ab&§
        password=ab&§&user=bob ~user=bob
        ?password=§&amp;user=bob ~user=bob
        password=ab}§ ok ~ok
        password=ab'§ ok ~ok
        password=ab\\§ ok ~ok
        f(password=§) failed ~failed
        f(password=§, user=bob) ~user=bob
        login with password=§; retry ~retry
    """,
    "tokens": """
        xapp-1-A0-§
        xoxb-12-§
        sk_test_§
        sk_live_§
        rk_test_§
        whsec_§
        ya29.§-§
        GOCSPX-§
        AIza§
        npm_§Zq7xhunter
        pypi-AgEI§
        SG.§.§
        hf_§Zq7xhunter
        sk-proj-§-§
        sk-ant-api03-§
        ghp_§
        github_pat_§
        glpat-§
        shpat_§
        dckr_pat_§
        hvs.§
        PMAK-§
        1234567890:AA§§§-§
        https://hooks.slack.com/services/T0/B0/§ ~hooks.slack.com
        https://discord.com/api/webhooks/1/§ ~discord.com
        https://x.webhook.office.com/webhookb2/§ ~webhook.office.com
        https://x.example/?X-Amz-Signature=§&n=1 ~n=1
    """,
}

LINES = [line.strip() for line in "\n".join(FORMS.values()).split("\n")]
ROWS = [line for line in LINES if line]


@pytest.mark.parametrize("row", ROWS)
def test_no_form_of_a_secret_is_shown(row: str) -> None:
    form, _, readable = row.removesuffix(" -").partition(" ~")
    text = form.replace("§", S)

    masked = mask_text(text)

    assert S not in masked
    assert (MASKED in masked) == ("§" in form)
    assert readable in masked
    assert mask_text(masked) == masked


READABLE = """
    TokenExpiredError: jwt expired
    token_type: bearer
    Auth::Token::Expired
    no column token::uuid of secretary.id = 5
    http://host:8080/users/@bob and http://registry:4873/@scope/x
    https://x.example:443/a@2 and s3://bucket/a:b
    no tokenizer: 5, compass=7, monkey: 3, spinner=x, headphones=2, automobile=yes
    task sk-learn and npm_config_registry and risk-free-of-charge-items
    a mobile: yes, pass: 3, pin: 4 of GPIO
    Key (id, tenant)=(5, 7) already exists.
    run it with --token-file x --passwordless yes
    column "password" does not exist
    KeyError: 'token'
"""


@pytest.mark.parametrize("text", [line.strip() for line in READABLE.strip().split("\n")])
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert mask_text(text) == text
