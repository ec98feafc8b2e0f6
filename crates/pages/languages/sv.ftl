# Swedish (du). What each message is for is said in en.ftl.

language-name = Svenska

waiting-title = Du står i kö
waiting-lead = Många vill komma in just nu. Du behåller din plats även om du stänger sidan.
standstill-title = Kön är pausad
standstill-lead = Ingen släpps in just nu. Din plats är säker.
near-title = Du är nästan framme
near-lead = Håll dig i närheten, det är snart din tur.
turn-title = Det är din tur
turn-lead = Du kan gå in nu.
turn-lead-auto = Du släpps in.
turn-remaining = { $count ->
    [one] Din plats hålls i { $n } sekund till.
   *[other] Din plats hålls i { $n } sekunder till.
}
turn-remaining-minutes = { $count ->
    [one] Din plats hålls i { $n } minut till.
   *[other] Din plats hålls i { $n } minuter till.
}
arriving-title = Du ställer dig i kön
arriving-lead = Ett ögonblick, vi ordnar en plats åt dig.
arriving-cookies = Händer ingenting? Webbläsaren måste tillåta kakor för att vi ska kunna hålla din plats.
many-arriving-title = Många kommer just nu
many-arriving-lead = Ett ögonblick: fler vill ställa sig i kön än som får plats på en gång. Sidan försöker igen av sig själv.
cookies-needed-title = Kakor behövs
cookies-needed-lead = Webbläsaren sparade inte vår kaka, så vi kan inte hålla en plats åt dig. Tillåt kakor för den här webbplatsen och kontrollera sedan igen.
held-title = Din plats är säker
held-lead = Kön står stilla en stund på grund av ett fel hos oss. Sidan fortsätter av sig själv.
held-new-title = Ett ögonblick
held-new-lead = Kön går inte att nå just nu. Sidan försöker igen av sig själv.
gone-title = Din tur har passerat
gone-lead = Tiden för att gå in har gått ut, eller så har du lämnat kön. Du kan ta en ny plats sist i kön.
left-title = Du har lämnat kön
left-lead = Din plats har gått till nästa. Du kan komma tillbaka när du vill, sist i kön.
moved-title = Din plats har flyttats
moved-lead = Du tog med den till en annan enhet eller webbläsare. Fortsätt där.
closed-title = Stängt
closed-lead = Inga fler släpps in och inga nya platser delas ut.
away-title = Inte just nu
away-lead = Webbplatsen släpper inte in någon för tillfället. Kom gärna tillbaka senare.
limited-title = För många förfrågningar
limited-lead = Din enhet eller ditt nätverk har skickat fler förfrågningar än webbplatsen tillåter. Vänta en stund och fortsätt sedan.
outside-title = Du är inte inne än
outside-lead = Öppna webbplatsen för att ta en plats i kön.
not-done-title = Detta genomfördes inte
not-done-lead = Du är inte inne än, så inget skickades till webbplatsen. Öppna webbplatsen för att ta en plats i kön och försök igen när du är inne.
unknown-site-title = Okänd webbplats
unknown-site-lead = Det finns ingen webbplats med det namnet här.
failed-title = Webbplatsen svarar inte
failed-lead = Du har inte gjort något fel. Försök igen om en stund.
refused-title = Det gick inte
refused-lead = Gå tillbaka och försök igen.
inside-title = Du är inne
inside-lead = Du kan stänga sidan.
handoff-title = Du är inne
handoff-lead = Du skickas vidare till webbplatsen.
confirm-title = Bekräfta, tack
confirm-lead = Du är redan inne. Webbplatsen ber om en bekräftelse innan du går vidare.
elsewhere-title = Din plats finns nu på den här enheten
elsewhere-lead = Öppna webbplatsen på den här enheten och logga in där. Du behåller din plats i kön.
for-site = Härifrån går du vidare till { $site }.

people-ahead = Personer före dig
people-ahead-of-you = { $count ->
    [0] Du står först i kön
    [one] { $n } person före dig
   *[other] { $n } personer före dig
}
your-number = Ditt könummer
estimated-wait = Beräknad väntetid
wait-unknown = Inte känd än
wait-less-than-a-minute = Mindre än en minut
wait-minutes = { $count ->
    [one] Ungefär { $n } minut
   *[other] Ungefär { $n } minuter
}
wait-hours = { $count ->
    [one] Ungefär { $n } timme
   *[other] Ungefär { $n } timmar
}
progress-since-joining = Så långt har kön rört sig sedan du kom
updated-at = Uppdaterad { $time }
connection-lost = Ingen anslutning. Din plats är säker och sidan försöker igen av sig själv.
what-happens = När det är din tur släpper sidan in dig automatiskt.
what-happens-button = När det är din tur visas en knapp här. Din plats hålls då en stund.
keep-open = Håll sidan öppen när det snart är din tur: platserna går till dem som är på plats.
keep-cookies = Den här webbläsaren håller din plats. Behåll dess kakor.
refresh-by-itself = { $count ->
    [one] Sidan uppdateras automatiskt med { $n } sekunds mellanrum.
   *[other] Sidan uppdateras automatiskt med { $n } sekunders mellanrum.
}
notice-from-operator = Meddelande

cues = När det är din tur
cue-sound = Spela ett ljud
cue-notification = Visa en avisering
cue-notification-blocked = Aviseringar är blockerade i den här webbläsaren

enter-button = Gå in nu
continue-button = Fortsätt
ask-again = Kontrollera nu
join-button = Ta en ny plats i kön
home-button = Till webbplatsen
leave-button = Lämna kön
leave-question = Vill du ge upp din plats? Den går till nästa i kön och du kan inte få tillbaka den.
leave-confirm = Ja, lämna kön
move-button = Fortsätt på en annan enhet
move-title = Ta med din plats till en annan enhet
move-lead = Öppna länken på den andra enheten. Din plats flyttas då dit och den här sidan slutar gälla.
move-qr-text = QR-kod för länken
move-expires = { $count ->
    [one] Länken gäller i { $n } minut, en gång.
   *[other] Länken gäller i { $n } minuter, en gång.
}
move-copy = Kopiera länken
move-copied = Kopierad
move-close = Stäng
take-title = Fortsätt här med din plats
take-lead = Din plats i kön flyttas till den här webbläsaren. Den andra enheten släpper den.
take-instead = Du ger då upp platsen som den här webbläsaren har nu.
take-button = Flytta min plats hit
take-failed-title = Länken fungerar inte längre
take-failed-lead = Den har redan använts eller är för gammal. Skapa en ny på enheten som har din plats.
