"""The small tables: auxiliaries, chains of nouns, names, numbers, function words."""

from __future__ import annotations

from lexicon import Noun, table

# je, il, nous, vous, ils
AVOIR = {
    "present": ("ai", "a", "avons", "avez", "ont"),
    "past": ("avais", "avait", "avions", "aviez", "avaient"),
}
ETRE = {
    "present": ("suis", "est", "sommes", "êtes", "sont"),
    "past": ("étais", "était", "étions", "étiez", "étaient"),
    "future": ("serai", "sera", "serons", "serez", "seront"),
}
FUTURE_ENDINGS = ("ai", "a", "ons", "ez", "ont")

# Chains of nouns, turned round: the last of an English chain comes first in French.
# English, French article after "de" (- for none), French noun, gender
MATERIALS = table("""
energy    la  énergie    f
steel     le  acier      m
coal      le  charbon    m
milk      le  lait       m
wine      le  vin        m
coffee    le  café       m
labour    le  travail    m
housing   le  logement   m
health    la  santé      f
transport les transports m
""")
FIELDS = table("""
market    le  marché     m
price     les prix       m
industry  la  industrie  f
policy    la  politique  f
sector    le  secteur    m
""")
ACTIVITIES = table("""
reform     - réforme       f
control    - contrôle      m
planning   - planification f
inspection - inspection    f
""")
# Other heads of chains: class, English and French singular and plural, gender
CHAIN_HEADS = tuple(
    Noun(kind, one, many, un, des, gender == "f")
    for kind, one, many, un, des, gender in table("""
G committee committees comité     comités     m
G agency    agencies   agence     agences     f
G office    offices    bureau     bureaux     m
A plan      plans      plan       plans       m
A programme programmes programme  programmes  m
P director  directors  directeur  directeurs  m
""")
)

# Names of institutions: "the European Economic Area", "l'Espace économique européen".
# English, French masculine, feminine
REGIONS = table("""
European      européen      européenne
African       africain      africaine
Asian         asiatique     asiatique
American      américain     américaine
International international internationale
""")
DOMAINS = table("""
Economic     économique économique
Monetary     monétaire  monétaire
Agricultural agricole   agricole
Commercial   commercial commerciale
""")
# English, French, gender
BODIES = table("""
Area      Espace     m
Union     Union      f
Council   Conseil    m
Community Communauté f
Bank      Banque     f
Fund      Fonds      m
Agency    Agence     f
""")

FIRST_NAMES = table("""
Paul   m
Thomas m
Victor m
Anna   f
Sofia  f
Julia  f
""")
SURNAMES = ("Martin", "Keller", "Rossi", "Novak", "Lambert")
# Parts of the names that occur once
SYLLABLES = (
    *("za", "ko", "vi", "mir", "del", "bra", "nov", "ska", "ren", "tu", "gor", "lin", "pe", "sta"),
    *("ju", "dra", "hol", "wen", "ber", "ki", "mo", "rak", "ti", "lo", "van", "sze", "dri", "fa"),
)
NAME_ENDINGS = (
    *("vic", "sen", "ski", "dal", "berg", "ova", "tti", "mann", "quist", "ric", "noff", "lund"),
    *("esco", "wicz"),
)
# English place, French preposition ("in" in English) and place
CITIES = table("""
Paris    à  Paris
London   à  Londres
Geneva   à  Genève
Brussels à  Bruxelles
Athens   à  Athènes
France   en France
Germany  en Allemagne
Canada   au Canada
Japan    au Japon
""")
MONTHS = table("""
January  janvier
March    mars
April    avril
May      mai
June     juin
July     juillet
October  octobre
December décembre
""")
DAYS = table("""
Monday   lundi
Tuesday  mardi
Thursday jeudi
Sunday   dimanche
""")
NUMERALS = table("""
two    deux
three  trois
four   quatre
five   cinq
six    six
seven  sept
eight  *huit
nine   neuf
ten    dix
twelve douze
""")
# English, then French before a masculine, a feminine and a plural noun
POSSESSIVES = table("""
my    mon   ma    mes
his   son   sa    ses
her   son   sa    ses
our   notre notre nos
your  votre votre vos
their leur  leur  leurs
""")
# English, French, whether it may follow "not"
ADVERBS = (("often", "souvent", True), ("always", "toujours", True), ("already", "déjà", False))
CONJUNCTIONS = (
    ("and", "et"),
    ("but", "mais"),
    ("because", "parce que"),
    ("when", "quand"),
    ("while", "tandis que"),
)
