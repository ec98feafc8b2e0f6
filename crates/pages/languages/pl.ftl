# Polish (second person, no gendered verb forms). What each message is for is said in en.ftl.

language-name = Polski

waiting-title = Jesteś w kolejce
waiting-lead = Wiele osób chce teraz wejść. Zachowasz swoje miejsce, nawet jeśli zamkniesz tę stronę.
standstill-title = Kolejka jest wstrzymana
standstill-lead = W tej chwili nikt nie jest wpuszczany. Twoje miejsce jest bezpieczne.
near-title = Już prawie
near-lead = Zostań w pobliżu – niedługo Twoja kolej.
turn-title = Twoja kolej
turn-lead = Możesz teraz wejść.
turn-lead-auto = Już Cię wpuszczamy.
turn-remaining = { $count ->
    [one] Twoje miejsce czeka jeszcze { $n } sekundę.
    [few] Twoje miejsce czeka jeszcze { $n } sekundy.
    [many] Twoje miejsce czeka jeszcze { $n } sekund.
   *[other] Twoje miejsce czeka jeszcze { $n } sekundy.
}
turn-remaining-minutes = { $count ->
    [one] Twoje miejsce czeka jeszcze { $n } minutę.
    [few] Twoje miejsce czeka jeszcze { $n } minuty.
    [many] Twoje miejsce czeka jeszcze { $n } minut.
   *[other] Twoje miejsce czeka jeszcze { $n } minuty.
}
arriving-title = Dołączasz do kolejki
arriving-lead = Chwileczkę, zajmujemy dla Ciebie miejsce.
arriving-cookies = Nic się nie dzieje? Przeglądarka musi przyjmować pliki cookie, abyśmy mogli zachować Twoje miejsce.
many-arriving-title = Przybywa wiele osób
many-arriving-lead = Chwileczkę: do kolejki chce dołączyć więcej osób, niż może przyjąć naraz. Ta strona spróbuje ponownie sama.
cookies-needed-title = Potrzebne są pliki cookie
cookies-needed-lead = Przeglądarka nie zachowała naszego pliku cookie, więc nie możemy zachować dla Ciebie miejsca. Zezwól tej witrynie na pliki cookie i sprawdź ponownie.
held-title = Twoje miejsce jest bezpieczne
held-lead = Kolejka na chwilę stanęła z powodu awarii po naszej stronie. Ta strona sama wznowi działanie.
held-new-title = Chwileczkę
held-new-lead = Kolejka jest teraz niedostępna. Ta strona sama spróbuje ponownie.
gone-title = Twoja kolej minęła
gone-lead = Czas na wejście upłynął albo miejsce w kolejce zostało zwolnione. Możesz zająć nowe miejsce na końcu.
left-title = Nie jesteś już w kolejce
left-lead = Twoje miejsce zajęła następna osoba. Możesz wrócić w każdej chwili, na koniec kolejki.
moved-title = Twoje miejsce zostało przeniesione
moved-lead = Jest teraz na innym urządzeniu lub w innej przeglądarce. Kontynuuj tam.
closed-title = Zamknięte
closed-lead = Nikt więcej nie jest wpuszczany i nie ma nowych miejsc.
away-title = Nie teraz
away-lead = Ta witryna w tej chwili nikogo nie wpuszcza. Wróć później.
limited-title = Zbyt wiele zapytań
limited-lead = Z Twojego urządzenia lub sieci przyszło więcej zapytań, niż dopuszcza ta witryna. Odczekaj chwilę i kontynuuj.
outside-title = Nie masz jeszcze dostępu
outside-lead = Otwórz witrynę, aby zająć miejsce w kolejce.
not-done-title = Operacja nie została wykonana
not-done-lead = Nie masz jeszcze dostępu, więc nic nie zostało wysłane do witryny. Otwórz ją, aby zająć miejsce w kolejce, i spróbuj ponownie po wejściu.
unknown-site-title = Nieznana witryna
unknown-site-lead = Nie ma tu witryny o tej nazwie.
failed-title = Witryna nie odpowiada
failed-lead = To nie Twoja wina. Spróbuj ponownie za chwilę.
refused-title = To się nie udało
refused-lead = Wróć i spróbuj ponownie.
inside-title = Masz już dostęp
inside-lead = Możesz zamknąć tę stronę.
handoff-title = Masz już dostęp
handoff-lead = Przenosimy Cię do witryny.
confirm-title = Potwierdź
confirm-lead = Masz już dostęp. Witryna prosi o potwierdzenie, zanim przejdziesz dalej.
elsewhere-title = Twoje miejsce jest teraz na tym urządzeniu
elsewhere-lead = Otwórz witrynę na tym urządzeniu i zaloguj się tam. Zachowasz swoje miejsce w kolejce.
for-site = Stąd przejdziesz do: { $site }

people-ahead = Liczba osób przed Tobą
people-ahead-of-you = { $count ->
    [0] Jesteś następną osobą w kolejce
    [one] { $n } osoba przed Tobą
    [few] { $n } osoby przed Tobą
    [many] { $n } osób przed Tobą
   *[other] { $n } osoby przed Tobą
}
your-number = Twój numer w kolejce
estimated-wait = Szacowany czas oczekiwania
wait-unknown = Jeszcze nieznany
wait-less-than-a-minute = Mniej niż minuta
wait-minutes = { $count ->
    [one] Około { $n } minuty
    [few] Około { $n } minut
    [many] Około { $n } minut
   *[other] Około { $n } minuty
}
wait-hours = { $count ->
    [one] Około { $n } godziny
    [few] Około { $n } godzin
    [many] Około { $n } godzin
   *[other] Około { $n } godziny
}
progress-since-joining = Postęp kolejki od Twojego dołączenia
updated-at = Aktualizacja: { $time }
connection-lost = Brak połączenia. Twoje miejsce jest bezpieczne, a ta strona sama spróbuje ponownie.
what-happens = Gdy nadejdzie Twoja kolej, ta strona sama Cię wpuści.
what-happens-button = Gdy nadejdzie Twoja kolej, pojawi się tu przycisk. Twoje miejsce będzie wtedy przez chwilę czekać.
keep-open = Gdy zbliży się Twoja kolej, nie zamykaj tej strony – miejsca otrzymują osoby obecne w danej chwili.
keep-cookies = Ta przeglądarka przechowuje Twoje miejsce. Nie usuwaj jej plików cookie.
refresh-by-itself = { $count ->
    [one] Ta strona sama odświeża się co { $n } sekundę.
    [few] Ta strona sama odświeża się co { $n } sekundy.
    [many] Ta strona sama odświeża się co { $n } sekund.
   *[other] Ta strona sama odświeża się co { $n } sekundy.
}
notice-from-operator = Komunikat

cues = Gdy nadejdzie Twoja kolej
cue-sound = Odtwórz dźwięk
cue-notification = Pokaż powiadomienie
cue-notification-blocked = Powiadomienia są zablokowane w tej przeglądarce

enter-button = Wejdź teraz
continue-button = Kontynuuj
ask-again = Sprawdź teraz
join-button = Zajmij nowe miejsce w kolejce
home-button = Powrót do witryny
leave-button = Opuść kolejkę
leave-question = Chcesz oddać swoje miejsce? Dostanie je następna osoba i nie będzie można go odzyskać.
leave-confirm = Tak, opuść kolejkę
move-button = Kontynuuj na innym urządzeniu
move-title = Przenieś swoje miejsce na inne urządzenie
move-lead = Otwórz ten link na drugim urządzeniu. Twoje miejsce przejdzie tam, a ta strona przestanie działać.
move-qr-text = Kod QR linku
move-expires = { $count ->
    [one] Link działa przez { $n } minutę, jeden raz.
    [few] Link działa przez { $n } minuty, jeden raz.
    [many] Link działa przez { $n } minut, jeden raz.
   *[other] Link działa przez { $n } minuty, jeden raz.
}
move-copy = Kopiuj link
move-copied = Skopiowano
move-close = Zamknij
take-title = Kontynuuj tutaj ze swoim miejscem
take-lead = Twoje miejsce w kolejce przejdzie do tej przeglądarki. Drugie urządzenie je straci.
take-instead = Stracisz przez to miejsce, które ta przeglądarka ma teraz.
take-button = Przenieś tu moje miejsce
take-failed-title = Ten link już nie działa
take-failed-lead = Został już użyty lub jest zbyt stary. Utwórz nowy na urządzeniu, które ma Twoje miejsce.
