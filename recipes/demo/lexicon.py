"""The words of the demo language: tables to read and to extend, one word a line.

Semantic classes say what may combine: P person, G group or institution, D document, T thing, L place,
A abstract matter, E event, M substance (no plural), W drink (no plural), F food.
A star before a French word marks an h (or a numeral) before which nothing is elided: "le héros", "le huit".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """An English noun and its French counterpart; substances have no plural (``plural == ""``)."""

    kind: str
    singular: str
    plural: str
    french_singular: str
    french_plural: str
    feminine: bool


@dataclass(frozen=True)
class Adjective:
    """``french`` is (masculine, feminine, masculine plural, feminine plural).

    ``place`` is "before" or "after" the French noun, or "relational": after it, and nearest to it.
    ``liaison`` is the masculine form before a vowel where that differs ("bel", "nouvel", "vieil").
    """

    english: str
    french: tuple[str, str, str, str]
    liaison: str
    place: str
    kinds: str

    def form(self, feminine: bool, plural: bool) -> str:
        """The form that agrees with a noun of this gender and number."""
        return self.french[2 * plural + feminine]


@dataclass(frozen=True)
class Verb:
    """English forms; French present (je, il, nous, vous, ils), infinitive, future stem, participle.

    ``particle`` is an English word after the verb that French lacks ("wait for"), ``preposition`` a French
    word that English lacks ("répondre à"). ``generic`` verbs take bare nouns as kinds ("aimer l'eau").
    ``stative`` verbs are used in the present only.
    """

    base: str
    third: str
    past: str
    participle: str
    present: tuple[str, str, str, str, str]
    infinitive: str
    future: str
    french_participle: str
    subjects: str
    objects: str
    flags: frozenset[str]

    @property
    def particle(self) -> str:
        """The English particle, or nothing."""
        return next((flag[1:] for flag in self.flags if flag.startswith("+")), "")

    @property
    def relatable(self) -> bool:
        """Whether its object is a plain direct object (relative clauses and passives need one)."""
        return "à" not in self.flags

    @property
    def passive(self) -> bool:
        """Whether the demo uses it in the passive."""
        return self.relatable and not self.particle and not self.flags & {"stative", "to"}

    def agreeing_participle(self, feminine: bool, plural: bool) -> str:
        """The past participle with the endings of this gender and number."""
        return agree(self.french_participle, feminine, plural)


def agree(participle: str, feminine: bool, plural: bool) -> str:
    """A regular participle with its gender and number endings."""
    with_gender = participle + "e" * feminine
    return with_gender + "s" * (plural and not with_gender.endswith("s"))


def _verb(english: str, present: str, rest: str, subjects: str, objects: str, flags: str) -> Verb:
    base, third, past, participle = english.split()
    je, il, nous, vous, ils = present.split()
    infinitive, future, french_participle = rest.split()
    return Verb(
        *(base, third, past, participle, (je, il, nous, vous, ils), infinitive, future),
        *(french_participle, subjects, objects, frozenset(flags.split())),
    )


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


def table(text: str) -> tuple[tuple[str, ...], ...]:
    """Lines of words."""
    return tuple(tuple(row) for row in _rows(text))


def _cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


# class, English singular and plural, French singular and plural, gender
NOUNS = tuple(
    Noun(kind, one, many.strip("-"), un, des.strip("-"), gender == "f")
    for kind, one, many, un, des, gender in _rows("""
P man         men          homme        hommes        m
P woman       women        femme        femmes        f
P boy         boys         garçon       garçons       m
P girl        girls        fille        filles        f
P mother      mothers      mère         mères         f
P father      fathers      père         pères         m
P child       children     enfant       enfants       m
P friend      friends      ami          amis          m
P king        kings        roi          rois          m
P queen       queens       reine        reines        f
P princess    princesses   princesse    princesses    f
P hero        heroes       *héros       *héros        m
P actress     actresses    actrice      actrices      f
P nurse       nurses       infirmière   infirmières   f
P director    directors    directeur    directeurs    m
P president   presidents   président    présidents    m
P minister    ministers    ministre     ministres     m
P teacher     teachers     professeur   professeurs   m
P student     students     étudiant     étudiants     m
P doctor      doctors      médecin      médecins      m
P lawyer      lawyers      avocat       avocats       m
P worker      workers      ouvrier      ouvriers      m
P farmer      farmers      agriculteur  agriculteurs  m
P writer      writers      écrivain     écrivains     m
P engineer    engineers    ingénieur    ingénieurs    m
P journalist  journalists  journaliste  journalistes  m
G committee   committees   comité       comités       m
G government  governments  gouvernement gouvernements m
G commission  commissions  commission   commissions   f
G parliament  parliaments  parlement    parlements    m
G bank        banks        banque       banques       f
G company     companies    entreprise   entreprises   f
G court       courts       tribunal     tribunaux     m
G ministry    ministries   ministère    ministères    m
G agency      agencies     agence       agences       f
G association associations association  associations  f
D letter      letters      lettre       lettres       f
D report      reports      rapport      rapports      m
D book        books        livre        livres        m
D law         laws         loi          lois          f
D agreement   agreements   accord       accords       m
D proposal    proposals    proposition  propositions  f
D article     articles     article      articles      m
D document    documents    document     documents     m
D contract    contracts    contrat      contrats      m
D newspaper   newspapers   journal      journaux      m
D answer      answers      réponse      réponses      f
T map         maps         carte        cartes        f
T car         cars         voiture      voitures      f
T table       tables       table        tables        f
T machine     machines     machine      machines      f
T ship        ships        navire       navires       m
T boat        boats        bateau       bateaux       m
T animal      animals      animal       animaux       m
T horse       horses       cheval       chevaux       m
T bird        birds        oiseau       oiseaux       m
T tree        trees        arbre        arbres        m
T watch       watches      montre       montres       f
T key         keys         clé          clés          f
T tool        tools        outil        outils        m
L house       houses       maison       maisons       f
L school      schools      école        écoles        f
L hospital    hospitals    hôpital      hôpitaux      m
L hotel       hotels       hôtel        hôtels        m
L city        cities       ville        villes        f
L village     villages     village      villages      m
L hamlet      hamlets      *hameau      *hameaux      m
L garden      gardens      jardin       jardins       m
L museum      museums      musée        musées        m
L church      churches     église       églises       f
L castle      castles      château      châteaux      m
L university  universities université   universités   f
A problem     problems     problème     problèmes     m
A question    questions    question     questions     f
A crisis      crises       crise        crises        f
A idea        ideas        idée         idées         f
A plan        plans        plan         plans         m
A project     projects     projet       projets       m
A decision    decisions    décision     décisions     f
A measure     measures     mesure       mesures       f
A method      methods      méthode      méthodes      f
A mistake     mistakes     erreur       erreurs       f
E meeting     meetings     réunion      réunions      f
E conference  conferences  conférence   conférences   f
E election    elections    élection     élections     f
E debate      debates      débat        débats        m
E ceremony    ceremonies   cérémonie    cérémonies    f
E journey     journeys     voyage       voyages       m
M energy      -            énergie      -             f
M steel       -            acier        -             m
M coal        -            charbon      -             m
M oil         -            pétrole      -             m
M sugar       -            sucre        -             m
M wheat       -            blé          -             m
M gold        -            or           -             m
W water       -            eau          -             f
W milk        -            lait         -             m
W wine        -            vin          -             m
W coffee      -            café         -             m
W beer        -            bière        -             f
F apple       apples       pomme        pommes        f
F cake        cakes        gâteau       gâteaux       m
F orange      oranges      orange       oranges       f
F cheese      cheeses      fromage      fromages      m
""")
)

# English, four French forms (masculine with "/form before a vowel"), place, classes
ADJECTIVES = tuple(
    Adjective(en, (m.split("/")[0], f, ms, fs), m.partition("/")[2], place, kinds)
    for en, m, f, ms, fs, place, kinds in _rows("""
old         vieux/vieil    vieille      vieux        vieilles      before     PDTL
new         nouveau/nouvel nouvelle     nouveaux     nouvelles     before     PGDTLA
beautiful   beau/bel       belle        beaux        belles        before     TL
young       jeune          jeune        jeunes       jeunes        before     P
big         grand          grande       grands       grandes       before     TL
small       petit          petite       petits       petites       before     GTLF
good        bon            bonne        bons         bonnes        before     PDAWF
bad         mauvais        mauvaise     mauvais      mauvaises     before     DA
long        long           longue       longs        longues       before     DE
former      ancien         ancienne     anciens      anciennes     before     PG
important   important      importante   importants   importantes   after      PGDLAEM
difficult   difficile      difficile    difficiles   difficiles    after      DAE
useful      utile          utile        utiles       utiles        after      DTAM
interesting intéressant    intéressante intéressants intéressantes after      DLAE
necessary   nécessaire     nécessaire   nécessaires  nécessaires   after      DAMW
dangerous   dangereux      dangereuse   dangereux    dangereuses   after      TAM
urgent      urgent         urgente      urgents      urgentes      after      DA
recent      récent         récente      récents      récentes      after      DEA
secret      secret         secrète      secrets      secrètes      after      DAE
official    officiel       officielle   officiels    officielles   after      DE
complete    complet        complète     complets     complètes     after      D
red         rouge          rouge        rouges       rouges        after      T
white       blanc          blanche      blancs       blanches      after      TL
black       noir           noire        noirs        noires        after      T
green       vert           verte        verts        vertes        after      T
heavy       lourd          lourde       lourds       lourdes       after      T
expensive   cher           chère        chers        chères        after      TMWF
modern      moderne        moderne      modernes     modernes      after      TLA
quiet       calme          calme        calmes       calmes        after      L
cold        froid          froide       froids       froides       after      W
pure        pur            pure         purs         pures         after      W
tired       fatigué        fatiguée     fatigués     fatiguées     after      P
happy       heureux        heureuse     heureux      heureuses     after      P
honest      honnête        honnête      honnêtes     honnêtes      after      P
famous      célèbre        célèbre      célèbres     célèbres      after      PDL
brave       courageux      courageuse   courageux    courageuses   after      P
rich        riche          riche        riches       riches        after      PG
powerful    puissant       puissante    puissants    puissantes    after      PG
economic    économique     économique   économiques  économiques   relational GDAE
political   politique      politique    politiques   politiques    relational GDAE
social      social         sociale      sociaux      sociales      relational DA
national    national       nationale    nationaux    nationales    relational GDE
public      public         publique     publics      publiques     relational LE
European    européen       européenne   européens    européennes   relational PGDTLAE
French      français       française    français     françaises    relational PGTLWF
Italian     italien        italienne    italiens     italiennes    relational PGTLWF
""")
)

# English forms | French present | infinitive, future stem, participle | subjects | objects | flags
VERBS = tuple(
    _verb(*cells)
    for cells in _cells("""
write writes wrote written              |écris écrit écrivons écrivez écrivent                   |écrire écrir écrit           |P |D    |
read reads read read                    |lis lit lisons lisez lisent                             |lire lir lu                  |P |D    |
sign signs signed signed                |signe signe signons signez signent                      |signer signer signé          |PG|D    |
publish publishes published published   |publie publie publions publiez publient                 |publier publier publié       |PG|D    |
translate translates translated translated|traduis traduit traduisons traduisez traduisent       |traduire traduir traduit     |P |D    |
see sees saw seen                       |vois voit voyons voyez voient                           |voir verr vu                 |P |PDTL |
find finds found found                  |trouve trouve trouvons trouvez trouvent                 |trouver trouver trouvé       |P |DT   |
buy buys bought bought                  |achète achète achetons achetez achètent                 |acheter achèter acheté       |PG|TLMWF|
sell sells sold sold                    |vends vend vendons vendez vendent                       |vendre vendr vendu           |PG|TLMWF|
build builds built built                |construis construit construisons construisez construisent|construire construir construit|PG|L  |
visit visits visited visited            |visite visite visitons visitez visitent                 |visiter visiter visité       |P |L    |
close closes closed closed              |ferme ferme fermons fermez ferment                      |fermer fermer fermé          |G |L    |
reject rejects rejected rejected        |rejette rejette rejetons rejetez rejettent              |rejeter rejetter rejeté      |PG|DA   |
accept accepts accepted accepted        |accepte accepte acceptons acceptez acceptent            |accepter accepter accepté    |PG|DA   |
criticise criticises criticised criticised|critique critique critiquons critiquez critiquent     |critiquer critiquer critiqué |PG|PGDA |
support supports supported supported    |soutiens soutient soutenons soutenez soutiennent        |soutenir soutiendr soutenu   |PG|PGA  |
examine examines examined examined      |examine examine examinons examinez examinent            |examiner examiner examiné    |PG|DA   |
explain explains explained explained    |explique explique expliquons expliquez expliquent       |expliquer expliquer expliqué |P |A    |
forget forgets forgot forgotten         |oublie oublie oublions oubliez oublient                 |oublier oublier oublié       |P |DAET |
prepare prepares prepared prepared      |prépare prépare préparons préparez préparent            |préparer préparer préparé    |PG|DE   |
organise organises organised organised  |organise organise organisons organisez organisent       |organiser organiser organisé |PG|E    |
eat eats ate eaten                      |mange mange mangeons mangez mangent                     |manger manger mangé          |P |F    |
drink drinks drank drunk                |bois boit buvons buvez boivent                          |boire boir bu                |P |W    |
produce produces produced produced      |produis produit produisons produisez produisent         |produire produir produit     |G |MW   |
use uses used used                      |utilise utilise utilisons utilisez utilisent            |utiliser utiliser utilisé    |PG|TM   |
meet meets met met                      |rencontre rencontre rencontrons rencontrez rencontrent  |rencontrer rencontrer rencontré|P|P   |
help helps helped helped                |aide aide aidons aidez aident                           |aider aider aidé             |PG|PG   |
invite invites invited invited          |invite invite invitons invitez invitent                 |inviter inviter invité       |PG|P    |
know knows knew known                   |connais connaît connaissons connaissez connaissent      |connaître connaîtr connu     |P |PL   |stative
like likes liked liked                  |aime aime aimons aimez aiment                           |aimer aimer aimé             |P |DTLMWF|stative generic
wait waits waited waited                |attends attend attendons attendez attendent             |attendre attendr attendu     |P |PE   |+for
look looks looked looked                |regarde regarde regardons regardez regardent            |regarder regarder regardé    |P |TL   |+at
listen listens listened listened        |écoute écoute écoutons écoutez écoutent                 |écouter écouter écouté       |P |P    |+to
answer answers answered answered        |réponds répond répondons répondez répondent             |répondre répondr répondu     |P |D    |à
give gives gave given                   |donne donne donnons donnez donnent                      |donner donner donné          |PG|DT   |to
show shows showed shown                 |montre montre montrons montrez montrent                 |montrer montrer montré       |P |DT   |to
send sends sent sent                    |envoie envoie envoyons envoyez envoient                 |envoyer enverr envoyé        |PG|D    |to
sleep sleeps slept slept                |dors dort dormons dormez dorment                        |dormir dormir dormi          |P |     |
work works worked worked                |travaille travaille travaillons travaillez travaillent  |travailler travailler travaillé|P|    |
sing sings sang sung                    |chante chante chantons chantez chantent                 |chanter chanter chanté       |P |     |
laugh laughs laughed laughed            |ris rit rions riez rient                                |rire rir ri                  |P |     |
arrive arrives arrived arrived          |arrive arrive arrivons arrivez arrivent                 |arriver arriver arrivé       |P |     |être
leave leaves left left                  |pars part partons partez partent                        |partir partir parti          |P |     |être
fall falls fell fallen                  |tombe tombe tombons tombez tombent                      |tomber tomber tombé          |PT|     |être
return returns returned returned        |reviens revient revenons revenez reviennent             |revenir reviendr revenu      |P |     |être
""")
)

# Verbs with a clause as object ("the minister says that ..."); the second field: usable in the past
REPORTING = tuple(
    (_verb(en, now, rest, "PG", "", ""), past == "past")
    for en, now, rest, past in _cells("""
say says said said                     |dis dit disons dites disent                   |dire dir dit               |past
think thinks thought thought           |pense pense pensons pensez pensent            |penser penser pensé        |
know knows knew known                  |sais sait savons savez savent                 |savoir saur su             |
announce announces announced announced |annonce annonce annonçons annoncez annoncent  |annoncer annoncer annoncé  |past
repeat repeats repeated repeated       |répète répète répétons répétez répètent       |répéter répéter répété     |past
""")
)

# Verbs of change ("the price rose by 7.5 %"), and the verb of price; "cost" never in the past ("cost")
CHANGES = tuple(
    _verb(en, now, rest, "", "", "")
    for en, now, rest in _cells("""
increase increases increased increased|augmente augmente augmentons augmentez augmentent|augmenter augmenter augmenté
drop drops dropped dropped            |baisse baisse baissons baissez baissent          |baisser baisser baissé
""")
)
COST = _verb(
    "cost costs cost cost", "coûte coûte coûtons coûtez coûtent", "coûter coûter coûté", "", "", ""
)

# English modal with its third person | French present | whether English "to" follows
MODALS = tuple(
    (tuple(en.split()), tuple(now.split()), to == "to")
    for en, now, to in _cells("""
can can      |peux peut pouvons pouvez peuvent       |
must must    |dois doit devons devez doivent         |
want wants   |veux veut voulons voulez veulent       |to
""")
)
