# Romanian (dumneavoastră). What each message is for is said in en.ftl.

language-name = Română

waiting-title = Sunteți la rând
waiting-lead = Mulți oameni vor să intre chiar acum. Vă păstrați locul chiar dacă închideți pagina.
standstill-title = Rândul s-a oprit pentru moment
standstill-lead = Momentan nu intră nimeni. Locul vă este păstrat.
near-title = Mai aveți puțin
near-lead = Rămâneți pe aproape: în curând vă vine rândul.
turn-title = E rândul dumneavoastră
turn-lead = Puteți intra acum.
turn-lead-auto = Vi se deschide accesul.
turn-remaining = { $count ->
    [one] Locul vă este păstrat încă { $n } secundă.
    [few] Locul vă este păstrat încă { $n } secunde.
   *[other] Locul vă este păstrat încă { $n } de secunde.
}
turn-remaining-minutes = { $count ->
    [one] Locul vă este păstrat încă { $n } minut.
    [few] Locul vă este păstrat încă { $n } minute.
   *[other] Locul vă este păstrat încă { $n } de minute.
}
arriving-title = Vă așezați la rând
arriving-lead = O clipă, vă rezervăm un loc.
arriving-cookies = Nu se întâmplă nimic? Browserul trebuie să accepte cookie-uri, ca să vă putem păstra locul.
many-arriving-title = Sosesc multe persoane
many-arriving-lead = Un moment: vor să intre la rând mai multe persoane decât încap deodată. Această pagină încearcă din nou singură.
cookies-needed-title = Sunt necesare cookie-uri
cookies-needed-lead = Browserul nu a păstrat cookie-ul nostru, așa că nu vă putem păstra un loc. Permiteți cookie-urile pentru acest site, apoi verificați din nou.
held-title = Locul vă este păstrat
held-lead = Rândul stă puțin pe loc din cauza unei defecțiuni la noi. Pagina continuă singură.
held-new-title = O clipă, vă rugăm
held-new-lead = Rândul nu poate fi accesat acum. Pagina încearcă din nou singură.
gone-title = Rândul dumneavoastră a trecut
gone-lead = Timpul de intrare a expirat sau ați ieșit din rând. Puteți lua un loc nou, la sfârșitul rândului.
left-title = Ați ieșit din rând
left-lead = Locul a trecut la următoarea persoană. Puteți reveni oricând, la sfârșitul rândului.
moved-title = Locul a fost mutat
moved-lead = L-ați luat pe alt dispozitiv sau în alt browser. Continuați acolo.
closed-title = Închis
closed-lead = Nu mai intră nimeni și nu se mai dau locuri noi.
away-title = Nu acum
away-lead = Momentan, acest site nu primește pe nimeni. Vă rugăm să reveniți mai târziu.
limited-title = Prea multe cereri
limited-lead = De pe dispozitivul sau din rețeaua dumneavoastră au venit mai multe cereri decât permite acest site. Așteptați puțin, apoi continuați.
outside-title = Încă nu aveți acces
outside-lead = Deschideți site-ul ca să luați un loc la rând.
not-done-title = Operațiunea nu a fost efectuată
not-done-lead = Încă nu aveți acces, așa că nu s-a trimis nimic către site. Deschideți site-ul ca să luați un loc la rând și încercați din nou după ce intrați.
unknown-site-title = Site necunoscut
unknown-site-lead = Aici nu există un site cu acest nume.
failed-title = Site-ul nu răspunde
failed-lead = Nu este vina dumneavoastră. Vă rugăm să încercați din nou peste puțin timp.
refused-title = Nu a funcționat
refused-lead = Vă rugăm să vă întoarceți și să încercați din nou.
inside-title = Ați intrat
inside-lead = Puteți închide această pagină.
handoff-title = Ați intrat
handoff-lead = Vă ducem pe site.
confirm-title = Vă rugăm să confirmați
confirm-lead = Ați intrat deja. Site-ul cere o confirmare înainte de a continua.
elsewhere-title = Locul dumneavoastră este acum pe acest dispozitiv
elsewhere-lead = Deschideți site-ul pe acest dispozitiv și autentificați-vă acolo. Vă păstrați locul la rând.
for-site = De aici mergeți la { $site }.

people-ahead = Persoane înaintea dumneavoastră
people-ahead-of-you = { $count ->
    [0] Urmează rândul dumneavoastră
    [one] { $n } persoană înaintea dumneavoastră
    [few] { $n } persoane înaintea dumneavoastră
   *[other] { $n } de persoane înaintea dumneavoastră
}
your-number = Numărul dumneavoastră la rând
estimated-wait = Timp de așteptare estimat
wait-unknown = Încă necunoscut
wait-less-than-a-minute = Mai puțin de un minut
wait-minutes = { $count ->
    [one] Aproximativ { $n } minut
    [few] Aproximativ { $n } minute
   *[other] Aproximativ { $n } de minute
}
wait-hours = { $count ->
    [one] Aproximativ { $n } oră
    [few] Aproximativ { $n } ore
   *[other] Aproximativ { $n } de ore
}
progress-since-joining = Cât a avansat rândul de când ați venit
updated-at = Actualizat la { $time }
connection-lost = Fără conexiune. Locul vă este păstrat; pagina încearcă din nou singură.
what-happens = Când vă vine rândul, pagina vă lasă să intrați automat.
what-happens-button = Când vă vine rândul, aici apare un buton. Locul vă este apoi păstrat un timp.
keep-open = Când vi se apropie rândul, țineți pagina deschisă: locurile merg la cei prezenți.
keep-cookies = Acest browser vă păstrează locul. Nu-i ștergeți cookie-urile.
refresh-by-itself = { $count ->
    [one] Pagina se actualizează automat la fiecare { $n } secundă.
    [few] Pagina se actualizează automat la fiecare { $n } secunde.
   *[other] Pagina se actualizează automat la fiecare { $n } de secunde.
}
notice-from-operator = Anunț

cues = Când vă vine rândul
cue-sound = Redare sunet
cue-notification = Afișare notificare
cue-notification-blocked = Notificările sunt blocate în acest browser

enter-button = Intrați acum
continue-button = Continuați
ask-again = Verificați acum
join-button = Luați un loc nou la rând
home-button = Înapoi la site
leave-button = Ieșiți din rând
leave-question = Renunțați la loc? El trece la următoarea persoană și nu mai poate fi recuperat.
leave-confirm = Da, ies din rând
move-button = Continuați pe alt dispozitiv
move-title = Luați-vă locul pe alt dispozitiv
move-lead = Deschideți acest link pe celălalt dispozitiv. Locul se mută acolo, iar această pagină se încheie.
move-qr-text = Codul QR al linkului
move-expires = { $count ->
    [one] Linkul este valabil { $n } minut, o singură dată.
    [few] Linkul este valabil { $n } minute, o singură dată.
   *[other] Linkul este valabil { $n } de minute, o singură dată.
}
move-copy = Copiați linkul
move-copied = Copiat
move-close = Închideți
take-title = Continuați aici cu locul dumneavoastră
take-lead = Locul la rând se mută în acest browser. Celălalt dispozitiv nu îl mai are.
take-instead = Astfel renunțați la locul pe care îl are acum acest browser.
take-button = Mutați-mi locul aici
take-failed-title = Acest link nu mai funcționează
take-failed-lead = A fost deja folosit sau este prea vechi. Creați unul nou pe dispozitivul care are locul.
