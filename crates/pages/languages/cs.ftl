# Czech (vy). What each message is for is said in en.ftl. The category many is for fractions.

language-name = Čeština

waiting-title = Jste ve frontě
waiting-lead = Právě teď chce dovnitř mnoho lidí. Vaše místo vám zůstane, i když tuto stránku zavřete.
standstill-title = Fronta je pozastavená
standstill-lead = Momentálně nikoho nevpouštíme. O své místo nepřijdete.
near-title = Už jen chvilku
near-lead = Zůstaňte poblíž, brzy budete na řadě.
turn-title = Jste na řadě
turn-lead = Teď můžete vstoupit.
turn-lead-auto = Právě vás vpouštíme.
turn-remaining = { $count ->
    [one] Vaše místo držíme ještě { $n } sekundu.
    [few] Vaše místo držíme ještě { $n } sekundy.
    [many] Vaše místo držíme ještě { $n } sekundy.
   *[other] Vaše místo držíme ještě { $n } sekund.
}
turn-remaining-minutes = { $count ->
    [one] Vaše místo držíme ještě { $n } minutu.
    [few] Vaše místo držíme ještě { $n } minuty.
    [many] Vaše místo držíme ještě { $n } minuty.
   *[other] Vaše místo držíme ještě { $n } minut.
}
arriving-title = Řadíte se do fronty
arriving-lead = Okamžik, připravujeme vám místo.
arriving-cookies = Nic se neděje? Prohlížeč musí přijímat cookies, abychom vám mohli místo podržet.
many-arriving-title = Právě přichází mnoho lidí
many-arriving-lead = Okamžik: do fronty se chce zařadit více lidí, než může přijmout najednou. Tato stránka to zkusí znovu sama.
cookies-needed-title = Jsou potřeba cookies
cookies-needed-lead = Prohlížeč si naše cookie neuložil, proto vám nemůžeme podržet místo. Povolte tomuto webu cookies a zkontrolujte to znovu.
held-title = O své místo nepřijdete
held-lead = Fronta na chvíli stojí kvůli závadě na naší straně. Tato stránka bude sama pokračovat.
held-new-title = Okamžik, prosím
held-new-lead = Fronta je právě nedostupná. Tato stránka to sama zkusí znovu.
gone-title = Čas na vstup vypršel
gone-lead = Vaše místo nebylo včas využito, nebo jste frontu opustili. Můžete se znovu zařadit na konec.
left-title = Opustili jste frontu
left-lead = Vaše místo připadlo dalšímu v pořadí. Můžete se kdykoli vrátit na konec fronty.
moved-title = Vaše místo bylo přeneseno
moved-lead = Přenesli jste je do jiného zařízení nebo prohlížeče. Pokračujte tam.
closed-title = Zavřeno
closed-lead = Nikoho už nevpouštíme a nová místa se nepřidělují.
away-title = Teď ne
away-lead = Tento web momentálně nikoho nevpouští. Vraťte se prosím později.
limited-title = Příliš mnoho požadavků
limited-lead = Z vašeho zařízení nebo sítě přišlo víc požadavků, než tento web dovoluje. Chvilku počkejte a pak pokračujte.
outside-title = Zatím nemáte přístup
outside-lead = Otevřete web a zařaďte se do fronty.
not-done-title = Akce nebyla provedena
not-done-lead = Zatím nemáte přístup, a proto se na web nic neodeslalo. Otevřete web, zařaďte se do fronty a po vstupu to zkuste znovu.
unknown-site-title = Neznámý web
unknown-site-lead = Web s tímto názvem tu není.
failed-title = Web neodpovídá
failed-lead = Není to vaše chyba. Zkuste to prosím za chvilku znovu.
refused-title = Nepodařilo se to
refused-lead = Vraťte se prosím zpět a zkuste to znovu.
inside-title = Jste uvnitř
inside-lead = Tuto stránku můžete zavřít.
handoff-title = Jste uvnitř
handoff-lead = Přesměrováváme vás na web.
confirm-title = Potvrďte prosím
confirm-lead = Už jste uvnitř. Web žádá o potvrzení, než budete pokračovat.
elsewhere-title = Vaše místo je teď na tomto zařízení
elsewhere-lead = Otevřete web na tomto zařízení a přihlaste se tam. Vaše místo ve frontě vám zůstane.
for-site = Odtud budete pokračovat na: { $site }

people-ahead = Počet lidí před vámi
people-ahead-of-you = { $count ->
    [0] Jste další na řadě
    [one] { $n } člověk před vámi
    [few] { $n } lidé před vámi
    [many] { $n } člověka před vámi
   *[other] { $n } lidí před vámi
}
your-number = Vaše číslo ve frontě
estimated-wait = Odhadovaná doba čekání
wait-unknown = Zatím neznámá
wait-less-than-a-minute = Méně než minuta
wait-minutes = { $count ->
    [one] Asi { $n } minuta
    [few] Asi { $n } minuty
    [many] Asi { $n } minuty
   *[other] Asi { $n } minut
}
wait-hours = { $count ->
    [one] Asi { $n } hodina
    [few] Asi { $n } hodiny
    [many] Asi { $n } hodiny
   *[other] Asi { $n } hodin
}
progress-since-joining = Jak fronta postoupila od vašeho příchodu
updated-at = Aktualizováno: { $time }
connection-lost = Bez připojení. O své místo nepřijdete, tato stránka to sama zkusí znovu.
what-happens = Až budete na řadě, tato stránka vás sama vpustí.
what-happens-button = Až budete na řadě, objeví se tu tlačítko. Místo vám pak chvíli podržíme.
keep-open = Až budete téměř na řadě, nechte tuto stránku otevřenou: místa dostanou ti, kdo tu v tu chvíli jsou.
keep-cookies = Vaše místo je uloženo v tomto prohlížeči. Nemažte jeho cookies.
refresh-by-itself = { $count ->
    [one] Tato stránka se sama obnovuje každou { $n } sekundu.
    [few] Tato stránka se sama obnovuje každé { $n } sekundy.
    [many] Tato stránka se sama obnovuje každé { $n } sekundy.
   *[other] Tato stránka se sama obnovuje každých { $n } sekund.
}
notice-from-operator = Oznámení

cues = Až budete na řadě
cue-sound = Přehrát zvuk
cue-notification = Zobrazit oznámení
cue-notification-blocked = Oznámení jsou v tomto prohlížeči zablokovaná

enter-button = Vstoupit
continue-button = Pokračovat
ask-again = Zkontrolovat teď
join-button = Znovu se zařadit do fronty
home-button = Zpět na web
leave-button = Opustit frontu
leave-question = Opravdu se chcete vzdát svého místa? Připadne dalšímu v pořadí a nepůjde získat zpět.
leave-confirm = Ano, opustit frontu
move-button = Pokračovat na jiném zařízení
move-title = Přeneste své místo do jiného zařízení
move-lead = Otevřete tento odkaz na druhém zařízení. Vaše místo se tam přenese a tato stránka skončí.
move-qr-text = QR kód odkazu
move-expires = { $count ->
    [one] Odkaz platí { $n } minutu a jen jednou.
    [few] Odkaz platí { $n } minuty a jen jednou.
    [many] Odkaz platí { $n } minuty a jen jednou.
   *[other] Odkaz platí { $n } minut a jen jednou.
}
move-copy = Kopírovat odkaz
move-copied = Zkopírováno
move-close = Zavřít
take-title = Pokračujte zde se svým místem
take-lead = Vaše místo ve frontě se přenese do tohoto prohlížeče. Druhé zařízení o ně přijde.
take-instead = Místo, které tento prohlížeč drží teď, tím ztratíte.
take-button = Přenést mé místo sem
take-failed-title = Tento odkaz už neplatí
take-failed-lead = Byl už použit, nebo je příliš starý. Vytvořte nový na zařízení, které má vaše místo.
